// The login form: an ACL user of the hub.

import { fill, h } from "./dom.js";

export class Login {
  #hub;
  #main;
  #form;
  #error;
  #submit;
  isShown = false;

  constructor(hub, main) {
    this.#hub = hub;
    this.#main = main;
    this.#error = h("p.error", { role: "alert" });
    this.#submit = h("button.primary", { type: "submit" }, "Log in");
    this.#form = h(
      "form.login",
      { onsubmit: (event) => this.#send(event) },
      h("h2", "Log in"),
      h("p.muted", "This hub needs a user: one of its ACL users, with the password."),
      h(
        "label",
        "User",
        h("input", { name: "user", autocomplete: "username", required: true, spellcheck: "false" }),
      ),
      h(
        "label",
        "Password",
        h("input", { name: "password", type: "password", autocomplete: "current-password" }),
      ),
      this.#error,
      this.#submit,
    );
  }

  show(reason) {
    if (this.isShown) return;
    this.isShown = true;
    this.#error.textContent =
      reason && !reason.startsWith("log in") && !/authentication required/i.test(reason) ? reason : "";
    this.#form.elements.password.value = "";
    fill(this.#main, this.#form);
    const { user, password } = this.#form.elements;
    (user.value === "" ? user : password).focus();
  }

  /** Another panel takes the form's place, once the hub has let the page in. Returns whether it was shown. */
  hide() {
    const was = this.isShown;
    this.isShown = false;
    return was;
  }

  async #send(event) {
    event.preventDefault();
    const { user, password } = this.#form.elements;
    this.#submit.disabled = true;
    this.#error.textContent = "";
    try {
      await this.#hub.signIn(user.value, password.value);
      password.value = "";
    } catch (error) {
      this.#error.textContent = error.code === "WRONGPASS" ? "Wrong user or password." : error.message;
      password.select();
    } finally {
      this.#submit.disabled = false;
    }
  }
}
