// Selects the displayed moment: now, or any moment that the ledger still covers.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { local } from "./parts.js";
import { change } from "./route.js";

export const SPANS = { "1h": 3600e3, "6h": 6 * 3600e3, "24h": 24 * 3600e3, "7d": 7 * 24 * 3600e3, "30d": 30 * 24 * 3600e3, all: "all" };
const STEPS = 1000;

/** The beginning of a span that ends at a moment: not before the ledger begins. */
export const firstOf = (span, oldest, end) => {
  const first = oldest ? new Date(oldest) - 1000 : end - 60e3;
  return new Date(Math.min(end - 1000, span === "all" ? first : Math.max(end - span, first)));
};

/** The value for a datetime-local field, in the user's time zone. */
const field = (time) => local(time).replace(" ", "T");

export function TimeBar({ context, spanName }) {
  const { route, until, sequence, oldest, head } = context;
  const [dragged, drag] = useState(null);
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const now = Date.now();
  const first = firstOf(SPANS[spanName], oldest, now).getTime();
  const shown = until ? new Date(until).getTime() : now;
  const position = dragged ?? (until ? Math.round(((shown - first) / (now - first)) * STEPS) : STEPS);
  const at = (position) => new Date(first + (position / STEPS) * (now - first));
  const go = (time) => change(route, { at: time >= Date.now() - 1000 ? "" : time.toISOString(), sequence: "" });
  const slide = (event) => {
    const position = Number(event.target.value);
    drag(position);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      drag(null);
      if (position >= STEPS) change(route, { at: "", sequence: "" });
      else go(at(position));
    }, 250);
  };
  const step = (by) => change(route, { sequence: Math.max(1, Math.min(head, (sequence ?? head) + by)), at: "" });
  const time = dragged === null ? new Date(shown) : at(dragged);
  const isPast = Boolean(until) || (dragged !== null && dragged < STEPS);
  return html`<div class="timebar ${isPast ? "past" : ""}" role="region" aria-label="Moment that is shown">
    <select aria-label="Span of the slider and of plots" value=${spanName} onChange=${(event) => change(route, { span: event.target.value })}>
      ${Object.keys(SPANS).map((name) => html`<option value=${name}>${name}</option>`)}</select>
    <input type="range" min="0" max=${STEPS} value=${Math.max(0, Math.min(STEPS, position))} onInput=${slide} aria-label="Moment"
      aria-valuetext=${isPast ? local(time) : "now"} />
    <input type="datetime-local" step="1" aria-label="Moment" value=${field(time)} key=${isPast ? shown : "now"}
      onChange=${(event) => event.target.value && go(new Date(event.target.value))} />
    <span class="steps"><button type="button" onClick=${() => step(-1)} disabled=${!head} aria-label="One entry back">‹</button>
      <button type="button" onClick=${() => step(1)} disabled=${!until || sequence >= head} aria-label="One entry on">›</button></span>
    ${isPast ? html`<button type="button" class="primary" onClick=${() => change(route, { at: "", sequence: "" })}>Now</button>`
      : html`<span class="now">now</span>`}
    ${until && html`<span class="note">the past, as of entry <span class="number">#${sequence}</span></span>`}
  </div>`;
}
