// Entries of the ledger: what happened, who caused it, and why.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, useAnswer } from "./api.js";
import { useSlow } from "./live.js";
import { NamespaceLink, Section, State, Time, local } from "./parts.js";
import { amounts } from "./quantity.js";
import { address, change } from "./route.js";

const PAGE = 100;
/** Most requests for one page: for a namespace with few entries, many pages of the ledger are empty. */
const REQUESTS = 10;

/** Events that change no number. */
const QUIET = new Set(["ObjectRefreshed", "ObjectsListed", "ResourceListed", "RelistBegan", "SourceAdvanced", "WatermarksAdvanced"]);

const WORDS = {
  QuotaSet: "quota set", QuotaDeleted: "quota deleted", GroupSet: "group set", GroupDeleted: "group deleted",
  ObjectObserved: "object seen", ObjectRefreshed: "object seen again", ObjectLapsed: "object lapsed",
  ObjectDeleted: "object deleted", ObjectCorrected: "object corrected", ObjectEnded: "object ended",
  ObjectReplaced: "object replaced", ReservationGranted: "reserved", ReservationExtended: "reservation extended",
  ReservationCommitted: "reservation committed", ReservationReleased: "reservation released",
  ReservationExpired: "reservation expired", ReservationSuperseded: "reservation superseded",
};

/** The display name of an event type. */
export const word = (type) => WORDS[type] ?? type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

/** The style class of an event type. */
const kind = (type) => /^(Quota|Group|Override)/.test(type) ? "quota" : type.startsWith("Reservation") ? "reservation"
  : type.startsWith("Object") ? "object" : "source";

/** The object of an entry, in a few words. Of what was deleted or has ended, as an earlier entry names it. */
function subject({ event, subject: found }) {
  const { resource = found?.resource, quota, name = quota ?? found?.name, uid, source } = event;
  if (name) return resource ? `${resource}/${name}` : name;
  return uid ?? resource ?? source?.source ?? source ?? "";
}

/** Further details of an entry. */
function detail({ event, subject: found }) {
  if (event.spec) return amounts(event.spec.hard ?? event.spec.quota?.hard);
  const footprint = event.footprint ?? event.object?.footprint;
  const all = footprint?.resources ?? event.amounts ?? found?.amounts ?? {};
  // What has two names is told once.
  const isTold = ([name, amount]) => all[`requests.${name}`] !== amount && all[name.replace(/^count\//, "")] !== (name.startsWith("count/") ? amount : null);
  return amounts(Object.fromEntries(Object.entries(all).filter(isTold)));
}

/** The user on whose behalf the entry was caused, or else the principal. */
const actor = ({ actor }) => actor.user ?? actor.principal;

/** Who caused an entry, and why. */
export const By = ({ entry }) => html`<span class="quiet who">${actor(entry)}${entry.actor.reason && html`: <q>${entry.actor.reason}</q>`}</span>`;

/** Whether an event is listed: `loud`, those that change a number; `limits`, those that change a limit. */
const listed = { loud: (type) => !QUIET.has(type), limits: (type) => kind(type) === "quota" };

/** A page of entries, the newest first, back from one entry. */
async function page(_, { query: { from, namespace, since, after, only, limit = PAGE }, signal }) {
  const items = [];
  let answer;
  for (let requests = 0; requests < REQUESTS; requests += 1) {
    const more = answer?.continue ?? after;
    const most = only ? 500 : limit - items.length;
    answer = await ask("v1/entries", {
      query: { order: "desc", namespace, limit: most, ...(more ? { continue: more } : { from }) }, signal,
    });
    items.push(...answer.items.filter(({ event }) => !only || listed[only](event.type)));
    const last = answer.items[answer.items.length - 1];
    if (!answer.continue || items.length >= limit || (since && last && new Date(last.time) < since)) break;
  }
  return { ...answer, items: since ? items.filter((entry) => new Date(entry.time) >= since) : items };
}

/** Groups consecutive similar entries into one line. */
function gather(entries) {
  const groups = [];
  for (const entry of entries) {
    const key = [entry.event.type, entry.event.namespace, actor(entry), entry.actor.reason].join(" ");
    const last = groups[groups.length - 1];
    if (last?.key === key) last.entries.push(entry);
    else groups.push({ key, entries: [entry] });
  }
  return groups;
}

/** A short list of the changes in the last hours. */
export function Changes({ context, hours, namespace, only = "loud", most = 10 }) {
  const { route, until, sequence } = context;
  const version = useSlow(context.version, 5e3);
  const since = Math.floor((new Date(until ?? Date.now()) - hours * 3600e3) / 60e3) * 60e3;
  const answer = useAnswer(["changes", { namespace, since, from: sequence, limit: 100, only }], version, page);
  const groups = gather(answer.data?.items ?? []);
  return html`<${State} answer=${answer} nothing=${answer.data && !groups.length && "Nothing changed."}>
    <ol class="changes">${groups.slice(0, most).map(({ entries }) => {
      const [entry] = entries;
      const link = address("entries", "", { ...context.moment, namespace, from: entry.sequence, open: entry.sequence });
      return html`<li key=${entries[entries.length - 1].sequence}>
        <a href=${link} class="when"><${Time} of=${entry.time} brief /></a>
        <span class="badge ${kind(entry.event.type)}">${word(entry.event.type)}${entries.length > 1 && ` ×${entries.length}`}</span>
        <span class="what">${!namespace && entry.event.namespace && html`<${NamespaceLink} name=${entry.event.namespace} route=${route} /> `}
          ${entries.length === 1 && subject(entry)}</span>
        <${By} entry=${entry} />
      </li>`;
    })}</ol>
    ${groups.length > most && html`<p class="quiet">and more before that</p>`}
  <//>`;
}

function Entry({ entry, open, route }) {
  const { event } = entry;
  const element = useRef(null);
  useEffect(() => { if (open) element.current?.scrollIntoView({ block: "center" }); }, [open]);
  return html`<li class=${open ? "chosen" : ""}><details ref=${element} open=${open}>
    <summary>
      <span class="number sequence">#${entry.sequence}</span>
      <${Time} of=${entry.time} date=${false} />
      <span class="badge ${kind(event.type)}">${word(event.type)}</span>
      <span class="what"><b>${event.namespace}</b> ${subject(entry)}</span>
      <${By} entry=${entry} />
      <span class="quiet detail">${detail(entry)}</span>
    </summary>
    <p class="tools"><a href=${address("ns", event.namespace ?? "", { sequence: entry.sequence })} hidden=${!event.namespace}>
        ${event.namespace} as of this entry</a>
      <button type="button" onClick=${() => change(route, { sequence: entry.sequence, at: "" })}>Show everything as of this entry</button></p>
    <pre tabindex="0">${JSON.stringify(entry, null, 2)}</pre>
  </details></li>`;
}

/** The timeline. */
export function Entries({ context }) {
  const { route, version, sequence } = context;
  const { namespace = "", open, from } = route.query;
  const [type, setType] = useState("");
  const [older, setOlder] = useState([]);
  const [failed, setFailed] = useState(null);
  // An entry that is requested by its number is shown with the few entries after it.
  const start = from ? Math.min(Number(from) + 5, sequence ?? Infinity) : sequence;
  const query = { namespace, from: start };
  const key = JSON.stringify(query);
  const answer = useAnswer(["entries", query], from ? 0 : version, page);
  useEffect(() => setOlder([]), [key]);
  const loaded = [answer.data, ...older].filter(Boolean);
  const seen = new Set();
  const items = loaded.flatMap(({ items }) => items)
    .filter(({ sequence }) => !seen.has(sequence) && seen.add(sequence));
  const types = [...new Set(items.map(({ event }) => event.type))].sort();
  const shown = items.filter(({ event }) => !type || event.type === type);
  const next = loaded[loaded.length - 1]?.continue;
  const more = () => page("", { query: { ...query, after: next } })
    .then((answer) => { setOlder([...older, answer]); setFailed(null); }, setFailed);
  let day = "";
  const apply = (event) => {
    event.preventDefault();
    change(route, { namespace: event.target.elements.namespace.value.trim(), from: "", open: "" });
  };
  const filter = html`<form class="inline" onSubmit=${apply}>
    <input name="namespace" key=${namespace} defaultValue=${namespace} value=${namespace} placeholder="All namespaces" aria-label="Namespace" autocapitalize="none" />
    <select aria-label="Event" value=${type} onChange=${(event) => setType(event.target.value)}>
      <option value="">All events</option>${types.map((type) => html`<option value=${type}>${word(type)}</option>`)}
    </select><button>Filter</button></form>`;
  return html`<main id="main"><h1>Entries</h1>
    <${Section} title=${namespace ? `Entries of ${namespace}` : "Entries of the ledger"} id="timeline" aside=${filter}>
      ${from && html`<p><a href=${address("entries", "", { ...context.moment, namespace })}>back to the newest</a></p>`}
      <${State} answer=${answer} nothing=${answer.data && !shown.length && !next && "There are none."}>
        <ol class="timeline">${shown.map((entry) => {
          const date = local(new Date(entry.time)).slice(0, 10);
          const head = date !== day && html`<li class="day" key=${date}><h3>${date}</h3></li>`;
          day = date;
          return [head, html`<${Entry} key=${entry.sequence} entry=${entry} route=${route} open=${String(entry.sequence) === open} />`];
        })}</ol>
        ${failed && html`<p class="problem" role="alert">${failed.message}</p>`}
        <p class="foot"><span>${shown.length} shown</span>${next && html`<button type="button" onClick=${more}>Show older</button>`}</p>
      <//>
    <//></main>`;
}
