// Charts with uPlot, in the colours of the page.

import { h } from "./dom.js";

const charts = new Set();

// Steps of a scale of bytes, and the lines of a logarithmic scale.
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const decades = (_, splits) =>
  splits.map((value) => (Number.isInteger(Number(Math.log10(value).toFixed(6))) ? value : null));

/** Draws all charts again, in the colours of the theme. */
export function themeChanged() {
  for (const chart of charts) chart.rebuild();
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/**
 * `wish`: label, series [{label, colour, dash, width}], height, format(value), candles (the series are
 * open, high, low, close), zero (the scale begins at 0), log.
 */
export class Chart {
  #wish;
  #plot = null;
  #data;
  #watch;
  #pending = false;

  constructor(wish) {
    this.#wish = wish;
    this.#data = [[], ...wish.series.map(() => [])];
    this.element = h("div.chart", { role: "img", "aria-label": wish.label });
    this.#watch = new ResizeObserver(() => this.#resize());
    this.#watch.observe(this.element);
    charts.add(this);
  }

  /** `[times in seconds, values, values, …]` */
  set(data) {
    this.#data = data;
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      this.#plot?.setData(this.#data);
    });
  }

  close() {
    this.#watch.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
    charts.delete(this);
  }

  rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#resize();
  }

  #resize() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    if (this.#plot === null)
      this.#plot = new globalThis.uPlot(this.#options(width), this.#data, this.element);
    else if (this.#plot.width !== width) this.#plot.setSize({ width, height: this.#wish.height });
  }

  #options(width) {
    const { series, height, format, candles, zero, log, binary } = this.#wish;
    const axis = {
      stroke: colour("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      gap: 4,
    };
    const range = zero ? { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } : {};
    return {
      width,
      height,
      padding: [8, 20, 0, 0],
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      legend: { live: true },
      scales: { x: { time: true }, y: log ? { distr: 3, log: 10 } : range },
      axes: [
        { ...axis, size: 24, space: 70, values: (_, times) => times.map(clock) },
        {
          ...axis,
          size: 62,
          space: 30,
          ...(binary ? { incrs: POWERS } : {}),
          ...(log ? { filter: decades, grid: { ...axis.grid, filter: decades } } : {}),
          values: (_, values) => values.map((value) => (value === null ? "" : format(value))),
        },
      ],
      series: [
        { label: "Time", value: (plot, seconds) => shown(plot, seconds, 0, clock) },
        ...series.map((one) => ({
          label: one.label,
          stroke: colour(one.colour),
          width: candles ? 0 : (one.width ?? 1.5),
          dash: one.dash,
          points: { show: false },
          paths: candles ? () => null : one.step ? globalThis.uPlot.paths.stepped({ align: 1 }) : undefined,
          spanGaps: false,
          value: (plot, value, index) => shown(plot, value, index, format),
        })),
      ],
      hooks: candles ? { draw: [drawCandles] } : {},
    };
  }
}

// Under the pointer, else the newest.
function shown(plot, value, index, format) {
  const now =
    value ?? (plot.cursor.idx === null || plot.cursor.idx === undefined ? plot.data[index]?.at(-1) : null);
  return now === null || now === undefined ? "–" : format(now);
}

function clock(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

// A rising bar is hollow and a falling one is full, so colour alone says nothing.
function drawCandles(plot) {
  const [times, opens, highs, lows, closes] = plot.data;
  const { ctx } = plot;
  const at = (value) => plot.valToPos(value, "y", true);
  const ratio = globalThis.devicePixelRatio || 1;
  const room =
    times.length > 1
      ? Math.abs(plot.valToPos(times[1], "x", true) - plot.valToPos(times[0], "x", true))
      : 12 * ratio;
  const width = Math.max(2, Math.min(12 * ratio, Math.floor(room * 0.7)));
  ctx.save();
  ctx.lineWidth = ratio;
  for (let index = 0; index < times.length; index++) {
    if (opens[index] === null || opens[index] === undefined) continue;
    const isUp = closes[index] >= opens[index];
    const x = Math.round(plot.valToPos(times[index], "x", true));
    const [top, bottom] = [
      at(Math.max(opens[index], closes[index])),
      at(Math.min(opens[index], closes[index])),
    ];
    ctx.strokeStyle = ctx.fillStyle = colour(isUp ? "up" : "down");
    ctx.beginPath();
    ctx.moveTo(x, at(highs[index]));
    ctx.lineTo(x, top);
    ctx.moveTo(x, bottom);
    ctx.lineTo(x, at(lows[index]));
    ctx.stroke();
    const tall = Math.max(ratio, bottom - top);
    if (isUp) ctx.strokeRect(x - width / 2, top, width, tall);
    else ctx.fillRect(x - width / 2, top, width, tall);
  }
  ctx.restore();
}

/** A small line of values in a canvas, for a row of a table. */
export function sparkline(canvas, values) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return;
  if (canvas.width !== width * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  if (values.length < 2) return;
  const least = Math.min(...values);
  const most = Math.max(...values);
  const span = most - least || 1;
  context.strokeStyle = colour("accent");
  context.lineWidth = 1.25;
  context.beginPath();
  values.forEach((value, index) => {
    const x = 1 + (index / (values.length - 1)) * (width - 2);
    const y = most === least ? height / 2 : height - 3 - ((value - least) / span) * (height - 6);
    if (index === 0) context.moveTo(x, y);
    else context.lineTo(x, y);
  });
  context.stroke();
}
