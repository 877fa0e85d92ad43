// The latest denials: of all namespaces, and of one.

import { html } from "./vendor/htm-preact.js";
import { useAnswer } from "./api.js";
import { useSlow, useTick } from "./live.js";
import { NamespaceLink, State, Time } from "./parts.js";

/** The denials that are requested: enough to count those of an hour in most ledgers. */
const READ = 100;
/** Interval of requests in milliseconds: a denial causes no entry. */
const POLL = 5000;
const SHOWN = 30;
/** Denials in the overview: lines. */
const LATEST = 8;

/** The denials up to the displayed moment, the latest first; `more` if there are further ones. */
export function useDenials(path, { version, until }) {
  const slow = useSlow(version, POLL);
  const tick = useTick(POLL, !until);
  const answer = useAnswer([path, { limit: READ }], `${slow} ${tick}`);
  const items = (answer.data?.items ?? []).filter(({ time }) => !until || new Date(time) <= new Date(until));
  return { answer, items, more: Boolean(answer.data?.continue) };
}

const object = ({ resource, name, uid }) => [resource, name || uid].filter(Boolean).join("/");

/** Consecutive denials of one namespace for the same reason, as one line. */
function gather(items) {
  const lines = [];
  for (const denial of items) {
    const last = lines[lines.length - 1];
    if (last?.denial.namespace === denial.namespace && last.denial.detail === denial.detail) last.count += 1;
    else lines.push({ denial, count: 1 });
  }
  return lines;
}

/** The latest denials of all namespaces, in short. */
export const Latest = ({ denials: { answer, items }, context }) => html`
  <${State} answer=${answer} nothing=${answer.data && !items.length && "None is remembered."}>
    <ul class="denials">${gather(items).slice(0, LATEST).map(({ denial, count }) => html`<li key=${denial.id}>
      <p><${Time} of=${denial.time} brief /> <${NamespaceLink} name=${denial.namespace} route=${context.route} />${" "}
        <b>${object(denial.object)}</b>${count > 1 && html` <span class="badge">×${count}</span>`}</p>
      <p class="detail quiet">${denial.detail}</p></li>`)}</ul>
  <//>`;

/** The denials of a namespace. */
export const Denials = ({ denials: { answer, items } }) => html`
  <${State} answer=${answer} nothing=${answer.data && !items.length && "None is remembered."}>
    <ul class="denials">${gather(items).slice(0, SHOWN).map(({ denial, count }) => html`<li key=${denial.id}>
      <p><${Time} of=${denial.time} brief /> <b>${object(denial.object)}</b>${count > 1 && html` <span class="badge">×${count}</span>`}
        <span class="quiet"> by ${denial.actor.user ?? denial.actor.principal}</span>
        <span class="badge bad">${denial.reason}</span>
        ${denial.fitsWhenEmpty === false && html`<span class="badge warn">would not fit if all else were gone</span>`}</p>
      <p class="detail">${denial.detail}</p>
      ${denial.retryAfter && html`<p class="quiet">Expiring reservations alone make room by <${Time} of=${denial.retryAfter} />.</p>`}
    </li>`)}</ul>
    ${gather(items).length > SHOWN && html`<p class="quiet">and more before these</p>`}
  <//>`;

/** The latest denial, in one line. */
export const Last = ({ denials: { items, more } }) => {
  const [denial] = items;
  return denial && html`<li class="full"><b class="share full">Denied</b> <span><${Time} of=${denial.time} brief />, <b>${object(denial.object)}</b>:${" "}
    <span class="detail">${denial.detail}</span>
    ${items.length > 1 && html` <button type="button" class="link" onClick=${() => {
      const details = document.querySelector("section[aria-labelledby=denials]");
      details.querySelector("details").open = true;
      details.scrollIntoView({ block: "center" });
    }}>${`${items.length}${more ? "+" : ""} denials`}</button>`}</span></li>`;
};
