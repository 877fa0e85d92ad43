// The namespaces, the fullest first, and what changed in the last hour.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { ask, pages, useAnswer } from "./api.js";
import { Changes } from "./entries.js";
import { Explanation } from "./explain.js";
import { Groups } from "./groups.js";
import { Amount, Bar, NamespaceLink, Section, State, Table, level } from "./parts.js";
import { percent, share } from "./quantity.js";
import { address, moment } from "./route.js";

/** Namespaces that are shown at first, and that each click adds. */
const STEP = 100;
/** Most namespaces with a trend: one request names them all. */
const TRENDS = 40;
const HOUR = 3600e3;

/** The share of the fullest limit over the last hour. */
function Sparkline({ shares }) {
  const points = shares.map((share, index) => share === null ? null
    : `${((index / Math.max(1, shares.length - 1)) * 80).toFixed(1)},${(19 - Math.min(1.1, share) * 16).toFixed(1)}`);
  const measured = shares.filter((share) => share !== null);
  if (!measured.length) return null;
  const label = `last hour: from ${percent(measured[0])} to ${percent(measured[measured.length - 1])}`;
  return html`<svg class="spark ${level(measured[measured.length - 1])}" viewBox="0 0 80 20" role="img" aria-label=${label}>
    <title>${label}</title><polyline points=${points.filter(Boolean).join(" ")} /></svg>`;
}

/** Trends of namespaces up to a moment, by name. They are requested again when other namespaces are shown, and every
 *  minute. */
function useTrends(names, until) {
  const minute = Math.floor(Date.now() / 60e3);
  const requested = names.slice(0, TRENDS);
  const to = new Date(until ?? Date.now());
  const from = new Date(to - HOUR);
  const key = requested.length ? ["trend", requested.slice().sort().join(","), until ?? minute] : null;
  const work = (_, { signal }) => ask("v1/usage/history", {
    query: { namespaces: requested.join(","), from: from.toISOString(), to: until && to.toISOString(), step: "2m" }, signal,
  });
  const { data } = useAnswer(key, 0, work);
  return useMemo(() => {
    const of = {};
    data?.namespaces.forEach((name, index) => { of[name] = data.points.map(({ max }) => max[index]); });
    return of;
  }, [data]);
}

function Row({ item, trend, route, explain }) {
  const { namespace, fullest } = item;
  const taken = fullest && share(fullest);
  // The last point may be a minute old, so the present share is appended.
  const shares = trend && fullest && [...trend, Number.isFinite(taken) ? taken : null];
  return html`<tr>
    <th scope="row"><${NamespaceLink} name=${namespace} route=${route} /></th>
    <td class="right number ${fullest ? "share " + level(taken) : ""}">${fullest && percent(taken)}</td>
    <td class="bars">${fullest && html`<${Bar} figure=${fullest} />`}</td>
    <td>${fullest ? html`${fullest.resource} <span class="quiet">${fullest.kind === "ClusterResourceQuota" && "group "}${fullest.quota}</span>`
      : html`<span class="quiet">no limit</span>`}</td>
    <td class="right">${fullest && html`<button type="button" class="link" onClick=${() => explain(item)}
      aria-label=${`used ${fullest.used ?? "?"} of ${fullest.hard} ${fullest.resource} in ${namespace}: what makes it`}>${fullest.used !== undefined
        && html`<${Amount} of=${fullest.used} resource=${fullest.resource} /> / `}<${Amount} of=${fullest.hard} resource=${fullest.resource} /></button>`}</td>
    <td class="right number">${item.reservations || ""}</td>
    <td>${shares && html`<${Sparkline} shares=${shares} />`}</td>
  </tr>`;
}

/** The view for a user who may not read all namespaces. */
const ByName = ({ error, route }) => {
  const open = (event) => {
    event.preventDefault();
    location.hash = address("ns", event.target.elements.namespace.value.trim(), moment(route.query));
  };
  return html`<p class="quiet">${error.message}. Open a namespace by its name:</p>
    <form class="inline" onSubmit=${open}><input name="namespace" aria-label="Namespace" required autocapitalize="none" />
      <button>Open</button></form>`;
};

export function Overview({ context }) {
  const { moment: when, version, route, until } = context;
  const [text, setText] = useState("");
  const [search, setSearch] = useState("");
  const [count, setCount] = useState(STEP);
  const [explained, explain] = useState(null);
  const input = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => { setSearch(text.trim()); setCount(STEP); }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const focus = (event) => {
      const modified = event.ctrlKey || event.altKey || event.metaKey;
      if (event.key === "/" && !modified && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        input.current?.focus();
      }
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  const work = (path, { query: { count, ...query }, signal }) => pages(path, { query, signal }, count);
  const answer = useAnswer(["v1/usage", { search, ...when, count }], version, work);
  const items = answer.data?.items ?? [];
  const trends = useTrends(items.map((item) => item.namespace), until);
  const first = items[0]?.namespace;
  const open = (event) => {
    event.preventDefault();
    if (first) location.hash = address("ns", first, when);
  };
  const forbidden = answer.error?.status === 403;
  const find = html`<form class="inline" role="search" onSubmit=${open}>
    <input ref=${input} type="search" value=${text} onInput=${(event) => setText(event.target.value)}
      placeholder="Search ( / )" aria-label="Search namespaces" autocapitalize="none" spellcheck="false" /></form>`;
  return html`<main id="main"><h1>Namespaces</h1><div class="cards overview">
    <${Section} title="By fullness" id="fullness" aside=${!forbidden && find}>
      ${forbidden ? html`<${ByName} error=${answer.error} route=${route} />` : html`
      <${State} answer=${answer} nothing=${answer.data && !items.length
          && (search ? `No namespace has “${search}” in its name.` : "The ledger holds nothing yet.")}>
        <${Table} label="Namespaces by fullness" kind="namespaces"
            columns=${["Namespace", ">Taken", "-Bar", "Fullest limit", ">Used / hard", ">Pending", "1 h"]}>
          ${items.map((item) => html`<${Row} key=${item.namespace} item=${item} trend=${trends[item.namespace]} route=${route} explain=${explain} />`)}
        <//>
        <p class="foot"><span>${items.length} shown</span>${answer.data?.continue && html`
          <button type="button" onClick=${() => setCount(count + STEP)}>Show ${STEP} more</button>`}</p>
      <//>`}
    <//>
    ${!forbidden && html`<${Groups} context=${context} />`}
    ${!forbidden && html`<${Section} title="Last hour" id="changes"
        aside=${html`<a href=${address("entries", "", moment(route.query))}>all entries</a>`}>
      <${Changes} context=${context} hours=${1} />
    <//>`}
  </div>
  ${explained && html`<${Explanation} namespace=${explained.namespace} quota=${explained.fullest.quota} figure=${explained.fullest}
    context=${context} close=${() => explain(null)} />`}
  </main>`;
}
