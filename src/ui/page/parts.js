// Components shared by several views.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { number, percent, share, shown, taken } from "./quantity.js";
import { address, moment } from "./route.js";

/** The used, reserved, guaranteed and remaining parts of a limit, as a bar. */
export function Bar({ figure }) {
  const hard = number(figure.hard);
  const whole = Math.max(hard, taken(figure)) || 1;
  // Who may not see what others use sees what is taken.
  const used = figure.used ?? String(taken(figure) - number(figure.reserved) - number(figure.guaranteedToOthers));
  const part = (text) => ({ width: `${Math.max(0, Math.min(100, (number(text ?? "0") / whole) * 100))}%` });
  const ratio = share(figure);
  const others = number(figure.guaranteedToOthers ?? "0") > 0 ? `, guaranteed to others ${figure.guaranteedToOthers}` : "";
  const label = `${percent(ratio)} of ${figure.resource}: used ${figure.used ?? "not shown"}, reserved ${figure.reserved ?? "0"}${others}, hard ${figure.hard}`;
  return html`<span class="bar ${level(ratio)}" role="img" aria-label=${label} title=${label}>
    <span class="used" style=${part(used)}></span><span class="reserved" style=${part(figure.reserved)}></span>
    ${others && html`<span class="others" style=${part(figure.guaranteedToOthers)}></span>`}
    ${hard > 0 && whole > hard && html`<span class="limit" style=${{ left: `${(hard / whole) * 100}%` }}></span>`}
  </span>`;
}

/** The severity of a share. */
export const level = (share) => share > 1 ? "over" : share >= 1 ? "full" : share >= 0.9 ? "high" : "";

/** A quantity, with the exact value in its tooltip; in the unit of `least`. */
export const Amount = ({ of, resource, least }) => html`<span class="number" title=${of}>${shown(of, resource, least)}</span>`;

/** A number that opens its explanation. */
export const Figure = ({ figure, of, name, least, explain }) => html`
  <button type="button" class="link" onClick=${() => explain(figure)} aria-label=${`${name} ${of} of ${figure.resource}: what makes it`}>
    <${Amount} of=${of} resource=${figure.resource} least=${least} /></button>`;

/** A limit as it is named beside others. */
export const limitName = ({ kind, name }) => kind === "ClusterResourceQuota" ? `group ${name}` : name;

/** A moment in the user's time zone, with the exact value in its tooltip; `brief`: without the date of today. */
export function Time({ of, date = true, brief }) {
  const time = new Date(of);
  if (Number.isNaN(time.getTime())) return of ?? "–";
  const today = brief && time.toDateString() === new Date().toDateString();
  const text = !date || today ? clock(time) : brief ? local(time).slice(5, 16) : local(time);
  return html`<time datetime=${of} title=${of}>${text}</time>`;
}

const two = (number) => String(number).padStart(2, "0");
export const clock = (time) => `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
export const local = (time) =>
  `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock(time)}`;

/** A length of time in its two largest units. */
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, length]) => seconds >= length);
  if (first < 0) return "0s";
  let left = seconds;
  return units.slice(first, first + 2).map(([unit, length]) => {
    const count = Math.floor(left / length);
    left %= length;
    return count ? `${count}${unit}` : "";
  }).filter(Boolean).join(" ");
}

/** The time of day, every second: for countdowns. */
export function useClock(running = true) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => set(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return now;
}

/** The time left until a moment. */
export const Countdown = ({ until, now }) => {
  const left = new Date(until) - now;
  return html`<span class="number" title=${until}>${left > 0 ? duration(left) : "due"}</span>`;
};

/** Placeholder for an answer that is pending, empty or an error. That the daemon is away, the banner announces once. */
export function State({ answer, children, nothing }) {
  if (answer.error && !answer.data) {
    return html`<p class="problem" role=${answer.error.status === 0 ? null : "alert"}>${answer.error.message}</p>`;
  }
  if (!answer.data) return html`<p class="quiet">Loading …</p>`;
  if (nothing) return html`<p class="quiet">${nothing}</p>`;
  return children;
}

export const isPhone = () => matchMedia("(max-width: 600px)").matches;

/** A part of a view, with its title. A part that `folds` is closed at first on a phone. */
export function Section({ title, id, aside, folds, children }) {
  const [open] = useState(!isPhone());
  return html`<section class="card" aria-labelledby=${id}>
    ${folds ? html`<details class="fold" open=${open}><summary><h2 id=${id}>${title}</h2></summary>
        ${aside && html`<p class="tools">${aside}</p>`}${children}</details>`
      : html`<header><h2 id=${id}>${title}</h2>${aside}</header>${children}`}
  </section>`;
}

/** Labels the cells of a table with their column names: on a phone each row is a block of named values. */
function useNamedCells(table) {
  useEffect(() => {
    const [body] = table.current.tBodies;
    const visible = (cell) => cell.querySelector(".hidden") ? "" : cell.textContent.trim();
    const name = () => {
      const names = [...table.current.tHead.rows[0].cells].map(visible);
      for (const row of body.rows) for (const cell of row.cells) cell.dataset.column = names[cell.cellIndex] ?? "";
    };
    name();
    const observer = new MutationObserver(name);
    observer.observe(body, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, []);
}

/** A table that scrolls horizontally where it is too wide. A column name begins with > for a numeric column, and with -
 *  if only screen readers announce it. */
export function Table({ label, columns, children, kind = "" }) {
  const table = useRef(null);
  useNamedCells(table);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table ref=${table} class=${kind}>
      <thead><tr>${columns.map((column) => {
        const [, mark, name] = /^([>-]?)(.*)$/.exec(column);
        return html`<th scope="col" class=${mark === ">" ? "right" : ""}>
          <span class=${mark === "-" ? "hidden" : ""}>${name}</span></th>`;
      })}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;
}

/** A link to an entry of the ledger. */
export const EntryLink = ({ sequence, route, namespace }) => html`
  <a class="number" href=${address("entries", "", { ...moment(route.query), from: sequence, namespace, open: sequence })}
    title="the entry behind this">#${sequence}</a>`;

/** A link to a namespace at the displayed moment. */
export const NamespaceLink = ({ name, route }) =>
  html`<a href=${address("ns", name, moment(route.query))}>${name}</a>`;

/** A choice between lists: the chosen one is shown below. */
export const Tabs = ({ label, names, chosen, choose }) => html`<div class="tabs" role="group" aria-label=${label}>
  ${names.map((name) => html`<button type="button" aria-pressed=${name === chosen} onClick=${() => choose(name)}>${name}</button>`)}</div>`;

/** A dialog over the page. */
export function Dialog({ title, close, children }) {
  const element = useRef(null);
  useEffect(() => element.current.showModal(), []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${close}
      onClick=${(event) => event.target === element.current && element.current.close()}>
    <header><h2>${title}</h2>
      <button type="button" onClick=${() => element.current.close()} aria-label="Close">✕</button></header>
    ${children}
  </dialog>`;
}
