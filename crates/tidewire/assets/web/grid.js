// A table of any number of rows: only those in sight exist in the page. The rows come from `count` and
// `row(index)`; a row that has not come yet is undefined, and is drawn as a placeholder.

import { h, perFrame, write } from "./dom.js";

const HEIGHT = 28;
const SPARE = 6;
// Browsers limit the height of an element; above this the scroll bar is scaled.
const TALLEST = 8_000_000;

export class Grid {
  #columns;
  #shown = [];
  #wish;
  #pool = [];
  #head;
  #scroller;
  #space;
  #empty;
  #width = 0;
  #selected = { key: null, index: -1 };
  #sort;
  #prefix = `g${Math.random().toString(36).slice(2, 8)}`;
  draw = perFrame(() => this.#draw());

  /**
   * `wish`: label, columns, count(), row(index), key(row), open(row), sort {by, descending}, sorted(by,
   * descending), moved(from, rows), empty(): the text for no rows, mark(row): classes of a row.
   * A column: id, title, min (px), grow, rank (the highest leaves first), number, flash, sortable,
   * text(row) or draw(cell, row).
   */
  constructor(wish) {
    this.#wish = wish;
    this.#columns = wish.columns;
    this.#sort = { ...wish.sort };
    this.#head = h("div.grid-head", { role: "row" });
    this.#space = h("div.grid-space", { role: "rowgroup" });
    this.#empty = h("div.grid-empty", { hidden: true });
    this.#scroller = h(
      "div.grid-body",
      {
        role: "grid",
        tabIndex: 0,
        "aria-label": wish.label,
        onscroll: () => this.#scrolled(),
        onkeydown: (event) => this.#key(event),
      },
      this.#head,
      this.#space,
    );
    this.element = h("div.grid", this.#scroller, this.#empty);
    new ResizeObserver(() => this.#resized()).observe(this.element);
  }

  /** Other columns, from now on. */
  setColumns(columns) {
    this.#columns = columns;
    this.#width = 0;
    this.#resized();
  }

  setSort(by, descending) {
    this.#sort = { by, descending };
    this.#drawHead();
  }

  top() {
    this.#scroller.scrollTop = 0;
  }

  focus() {
    this.#scroller.focus();
  }

  select(key, index = -1) {
    this.#selected = { key, index };
    this.draw();
  }

  // The height of the rows in sight: the head stays above them.
  get #view() {
    return Math.max(0, this.#scroller.clientHeight - HEIGHT);
  }

  /** First row in sight, and number of rows that fit. */
  get window() {
    const view = this.#view;
    return { from: Math.floor(this.#above() / HEIGHT), rows: Math.ceil(view / HEIGHT) + 1 };
  }

  #resized() {
    const width = this.#scroller.clientWidth;
    if (width === 0) return;
    if (width !== this.#width) {
      this.#width = width;
      this.#choose(width);
    }
    this.#scrolled();
  }

  // The columns that fit: those of the highest rank leave first.
  #choose(width) {
    let fitting = this.#columns.filter((column) => !column.hidden);
    const needed = () => fitting.reduce((sum, column) => sum + column.min, 0);
    while (needed() > width && fitting.length > 1) {
      const highest = Math.max(...fitting.map((column) => column.rank ?? 0));
      if (highest === 0) break;
      fitting = fitting.filter(
        (column) =>
          (column.rank ?? 0) < highest || fitting.findLast((c) => (c.rank ?? 0) === highest) !== column,
      );
    }
    this.#shown = fitting;
    const tracks = fitting.map((column) => `minmax(${column.min}px, ${column.grow ?? 1}fr)`).join(" ");
    this.element.style.setProperty("--columns", tracks);
    for (const line of this.#pool) line.element.remove();
    this.#pool = [];
    this.#drawHead();
  }

  #drawHead() {
    this.#head.replaceChildren(
      ...this.#shown.map((column) => {
        const isSorted = this.#sort.by === column.id;
        const order = isSorted ? (this.#sort.descending ? "descending" : "ascending") : "none";
        const arrow = isSorted ? (this.#sort.descending ? " ↓" : " ↑") : "";
        const title = column.title + arrow;
        const inner =
          column.sortable === false
            ? title
            : h("button", { type: "button", title: column.hint, onclick: () => this.#order(column) }, title);
        return h(
          column.number ? "div.cell.number" : "div.cell",
          { role: "columnheader", "aria-sort": order, title: column.hint },
          inner,
        );
      }),
    );
  }

  #order(column) {
    const descending = this.#sort.by === column.id ? !this.#sort.descending : column.number === true;
    this.setSort(column.id, descending);
    this.top();
    this.#wish.sorted(column.id, descending);
  }

  #scrolled() {
    const { from, rows } = this.window;
    this.#wish.moved?.(from, rows);
    this.draw();
  }

  // How many pixels of the whole table are above what is in sight.
  #above() {
    const view = this.#view;
    const whole = this.#wish.count() * HEIGHT;
    const tall = Math.min(whole, TALLEST);
    if (whole <= tall || tall <= view) return this.#scroller.scrollTop;
    return this.#scroller.scrollTop * ((whole - view) / (tall - view));
  }

  #draw() {
    if (this.element.clientWidth === 0) return;
    const count = this.#wish.count();
    this.#space.style.height = `${Math.min(count * HEIGHT, TALLEST)}px`;
    this.#scroller.setAttribute("aria-rowcount", count + 1);
    this.#empty.hidden = count > 0;
    if (count === 0) write(this.#empty, this.#wish.empty?.() ?? "Nothing to show");
    const { from, rows } = this.window;
    const first = Math.max(0, from - SPARE);
    const last = Math.min(count, from + rows + SPARE);
    const needed = rows + 2 * SPARE + 1;
    while (this.#pool.length < needed) this.#pool.push(this.#line());
    const shift = this.#scroller.scrollTop - this.#above();
    for (const line of this.#pool) line.used = false;
    for (let index = first; index < last; index++)
      this.#drawLine(this.#pool[index % this.#pool.length], index, shift);
    for (const line of this.#pool) if (!line.used) line.element.hidden = true;
  }

  #line() {
    const cells = this.#shown.map((column) =>
      h(column.number ? "div.cell.number" : "div.cell", { role: "gridcell" }),
    );
    const element = h("div.grid-row", { role: "row", hidden: true }, cells);
    const line = { element, cells, key: null, values: [], index: -1 };
    element.addEventListener("click", () => this.#open(line));
    this.#space.append(element);
    return line;
  }

  #drawLine(line, index, shift) {
    const row = this.#wish.row(index);
    const key = row === undefined ? null : this.#wish.key(row);
    line.used = true;
    line.element.hidden = false;
    line.element.style.transform = `translateY(${index * HEIGHT + shift}px)`;
    if (line.index !== index) {
      line.index = index;
      line.element.setAttribute("aria-rowindex", index + 2);
      line.element.id = `${this.#prefix}-${index}`;
    }
    const isSame = key !== null && line.key === key;
    const isSelected = key !== null && key === this.#selected.key;
    const marks = row === undefined ? "waiting" : (this.#wish.mark?.(row) ?? "");
    const names = `grid-row ${index % 2 ? "odd" : ""} ${marks} ${isSelected ? "selected" : ""}`;
    if (line.names !== names) {
      line.names = names;
      line.element.className = names;
      line.element.setAttribute("aria-selected", String(isSelected));
    }
    if (isSelected) {
      this.#selected.index = index;
      this.#scroller.setAttribute("aria-activedescendant", line.element.id);
    }
    this.#shown.forEach((column, at) => this.#drawCell(line, at, column, row, isSame));
    line.key = key;
    line.row = row;
  }

  #drawCell(line, at, column, row, isSame) {
    const cell = line.cells[at];
    if (row === undefined) {
      write(cell, at === 0 ? "…" : "");
      line.values[at] = undefined;
      return;
    }
    if (column.draw) column.draw(cell, row);
    else write(cell, column.text(row));
    if (column.style) column.style(cell, row);
    if (!column.flash) return;
    const now = Number(column.flash(row));
    const before = line.values[at];
    line.values[at] = now;
    if (!isSame) cell.classList.remove(...WAYS);
    else if (before !== undefined && now !== before && !Number.isNaN(now)) flash(cell, now > before);
  }

  #open(line) {
    if (line.row === undefined) return;
    this.select(line.key, line.index);
    this.#wish.open(line.row);
  }

  #key(event) {
    if (event.target !== this.#scroller) return;
    const page = this.window.rows - 2;
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key === "Enter") {
      const line = this.#pool.find(
        (one) => one.key !== null && one.key === this.#selected.key && !one.element.hidden,
      );
      if (line) this.#open(line);
    } else if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.#move(steps[event.key]);
    }
  }

  #move(step) {
    const last = this.#wish.count() - 1;
    const start =
      this.#selected.index < 0
        ? step > 0
          ? this.window.from - 1
          : this.window.from + 1
        : this.#selected.index;
    const index = Math.max(0, Math.min(last, start + step));
    this.#reveal(index);
    requestAnimationFrame(() => {
      const row = this.#wish.row(index);
      this.#selected = { key: row === undefined ? null : this.#wish.key(row), index };
      this.draw();
    });
  }

  #reveal(index) {
    const view = this.#view;
    const top = index * HEIGHT;
    const above = this.#above();
    if (top < above) this.#to(top);
    else if (top + HEIGHT > above + view) this.#to(top + HEIGHT - view);
  }

  #to(pixels) {
    const view = this.#view;
    const whole = this.#wish.count() * HEIGHT;
    const tall = Math.min(whole, TALLEST);
    this.#scroller.scrollTop = whole > tall ? pixels * ((tall - view) / (whole - view)) : pixels;
  }
}

const WAYS = ["up-a", "up-b", "up-s", "down-a", "down-b", "down-s"];

/**
 * Lights a cell up for a moment, and keeps the way of its change. A cell that changes all the time is
 * lit now and then only: a page where everything shines says nothing. Two names of one animation take
 * turns, so that it begins again.
 */
export function flash(cell, isUp) {
  const way = isUp ? "up" : "down";
  const now = performance.now();
  const isRested = !(cell.restsUntil > now);
  const next = !isRested ? `${way}-s` : cell.classList.contains(`${way}-a`) ? `${way}-b` : `${way}-a`;
  if (isRested) cell.restsUntil = now + 1_500 + Math.random() * 2_500;
  // A light that is still on goes out by itself.
  if (!isRested && cell.classList.contains(`${way}-a`)) return;
  if (!isRested && cell.classList.contains(`${way}-b`)) return;
  cell.classList.remove(...WAYS);
  cell.classList.add(next);
}
