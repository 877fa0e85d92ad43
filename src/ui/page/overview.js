// What needs attention: how many namespaces are full, what was denied, and the fullest namespaces and groups.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, pages, useAnswer } from "./api.js";
import { Latest, useDenials } from "./denials.js";
import { Changes } from "./entries.js";
import { Explanation } from "./explain.js";
import { Groups } from "./groups.js";
import { EmptyLedger, Forbidden } from "./missing.js";
import { Amount, Bar, NamespaceLink, Section, State, Table, Tabs, isPhone, level, limitName } from "./parts.js";
import { leastBytes, percent, share } from "./quantity.js";
import { address, change, moment } from "./route.js";

/** Namespaces that are shown at first, and that each click adds. */
const STEP = () => isPhone() ? 20 : 100;
const HOUR = 3600e3;
const SORTS = { fullness: "fullest first", pending: "most pending first", name: "by name" };

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

/** The namespaces of which rows are on the screen. */
function useVisible(place, names) {
  const [visible, set] = useState([]);
  useEffect(() => {
    const seen = new Set();
    let timer;
    const observer = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) seen[isIntersecting ? "add" : "delete"](target.dataset.namespace);
      clearTimeout(timer);
      timer = setTimeout(() => set([...seen].sort()), 200);
    });
    for (const row of place.current?.querySelectorAll("[data-namespace]") ?? []) observer.observe(row);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [names.join()]);
  return visible;
}

/** Trends up to a moment of the namespaces on the screen, and of those that were there before, by name. They are requested
 *  again when others are there, and every minute. */
function useTrends(names, until) {
  const known = useRef({});
  const minute = Math.floor(Date.now() / 60e3);
  const to = new Date(until ?? Date.now());
  const key = names.length ? ["trend", names, until ?? minute] : null;
  const work = (_, { signal }) => ask("v1/usage/history", {
    query: { namespaces: names.join(","), from: new Date(to - HOUR).toISOString(), to: until && to.toISOString(), step: "2m" }, signal,
  });
  const { data } = useAnswer(key, 0, work);
  useEffect(() => { known.current = {}; }, [until]);
  data?.namespaces.forEach((name, index) => { known.current[name] = data.points.map(({ max, shares }) => (max ?? shares)[index]); });
  return known.current;
}

function Row({ item, trend, route, explain, least }) {
  const { namespace, fullest } = item;
  const taken = fullest && share(fullest);
  // The last point may be a minute old, so the present share is appended.
  const shares = trend && fullest && [...trend, Number.isFinite(taken) ? taken : null];
  const amount = (of) => html`<${Amount} of=${of} resource=${fullest.resource} least=${least} />`;
  return html`<tr data-namespace=${namespace}>
    <th scope="row"><${NamespaceLink} name=${namespace} route=${route} /></th>
    <td class="right number ${fullest ? "share " + level(taken) : ""}">${fullest && percent(taken)}</td>
    <td class="bars">${fullest && html`<${Bar} figure=${fullest} />`}</td>
    <td>${fullest ? html`${fullest.resource} <span class="quiet">${limitName({ ...fullest, name: fullest.quota })}</span>`
      : html`<span class="quiet">no limit</span>`}</td>
    <td class="right">${fullest && html`<button type="button" class="link" onClick=${() => explain(item)}
      aria-label=${`used ${fullest.used ?? "?"} of ${fullest.hard} ${fullest.resource} in ${namespace}: what makes it`}>
      ${fullest.used !== undefined && html`${amount(fullest.used)} / `}${amount(fullest.hard)}</button>`}</td>
    <td class="right number">${item.reservations || ""}</td>
    <td class="trend">${shares && html`<${Sparkline} shares=${shares} />`}</td>
  </tr>`;
}

/** How many need attention. */
function Counts({ total, counts, denials, until }) {
  const { items, more } = denials;
  const since = new Date(until ?? Date.now()) - HOUR;
  const denied = items.filter(({ time }) => new Date(time) > since).length;
  const shown = [
    ["over their limit", counts?.over, "over"], ["full", counts?.full, "full"], ["at risk (90% and more)", counts?.atRisk, "high"],
    ["denied in the last hour", more && denied === items.length ? `${denied}+` : denied, denied ? "full" : ""],
    ["pending reservations", counts?.pending, ""], ["namespaces", total, ""],
  ];
  return html`<ul class="counts" aria-label="What needs attention">${shown.map(([name, count, kind]) => html`
    <li><b class="number share ${count ? kind : ""}">${count ?? "–"}</b> <span>${name}</span></li>`)}</ul>`;
}

/** The namespace that is meant by a typed text: its name, or begins with it, or contains it. */
const meant = (names, text) => names.find((name) => name === text) ?? names.find((name) => name.startsWith(text)) ?? names[0];

/** The search, filter and order of the namespaces. */
function Find({ text, setText, route, open }) {
  const input = useRef(null);
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
  const { labels = "", sort = "fullness" } = route.query;
  return html`<div class="find"><form role="search" onSubmit=${open}>
    <input ref=${input} type="search" value=${text} onInput=${(event) => setText(event.target.value)}
      placeholder="Search ( / )" aria-label="Search namespaces" autocapitalize="none" spellcheck="false" /></form>
    <input key=${labels} defaultValue=${labels} value=${labels} placeholder="Labels: team=a" aria-label="Labels"
      autocapitalize="none" spellcheck="false" onChange=${(event) => change(route, { labels: event.target.value.trim() })} />
    <select aria-label="Order" value=${sort} onChange=${(event) => change(route, { sort: event.target.value })}>
      ${Object.entries(SORTS).map(([name, text]) => html`<option value=${name}>${text}</option>`)}</select></div>`;
}

function Namespaces({ context, answer, count, showMore, search, explain }) {
  const { route, until } = context;
  const place = useRef(null);
  const items = answer.data?.items ?? [];
  const trends = useTrends(useVisible(place, items.map(({ namespace }) => namespace)), until);
  const least = leastBytes(items.flatMap(({ fullest }) => fullest ?? []));
  const { labels } = route.query;
  const nothing = search ? `No namespace has “${search}” in its name${labels ? " and these labels" : ""}.`
    : labels ? "No namespace has these labels." : html`<${EmptyLedger} until=${until} />`;
  return html`<div ref=${place}><${State} answer=${answer} nothing=${answer.data && !items.length && nothing}>
    <${Table} label="Namespaces by fullness" kind="namespaces"
        columns=${["Namespace", ">Taken", "-Bar", "Fullest limit", ">Used / hard", ">Pending", "1 h"]}>
      ${items.map((item) => html`<${Row} key=${item.namespace} item=${item} trend=${trends[item.namespace]} route=${route} explain=${explain} least=${least} />`)}
    <//>
    <p class="foot"><span>${items.length}${answer.data && ` of ${answer.data.total}`} shown</span>${answer.data?.continue && html`
      <button type="button" onClick=${showMore}>Show ${STEP()} more</button>`}</p>
  <//></div>`;
}

export function Overview({ context }) {
  const { moment: when, version, route, until } = context;
  const [text, setText] = useState("");
  const [search, setSearch] = useState("");
  const [count, setCount] = useState(STEP);
  const [explained, explain] = useState(null);
  const [list, choose] = useState("Namespaces");
  useEffect(() => {
    const timer = setTimeout(() => { setSearch(text.trim()); setCount(STEP); }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  const { labels: labelSelector, sort } = route.query;
  const work = (path, { query: { count, ...query }, signal }) => pages(path, { query, signal }, count);
  const answer = useAnswer(["v1/usage", { search, labelSelector, sort, ...when, count }], version, work);
  const denials = useDenials("v1/denials", context);
  const open = async (event) => {
    event.preventDefault();
    // What is typed counts, not what the list still shows.
    const typed = text.trim();
    const found = await pages("v1/usage", { query: { search: typed, labelSelector, ...when } }, 500).catch(() => null);
    const namespace = meant((found?.items ?? []).map(({ namespace }) => namespace), typed);
    if (namespace) location.hash = address("ns", namespace, when);
  };
  if (answer.error?.status === 403) {
    return html`<main id="main"><h1>Namespaces</h1><div class="card"><${Forbidden} error=${answer.error} context=${context} /></div></main>`;
  }
  return html`<main id="main"><h1 class="hidden">What needs attention</h1>
    <${Counts} total=${answer.data?.total} counts=${answer.data?.counts} denials=${denials} until=${until} />
    <div class="columns main-first"><div>
      <section class="card" aria-labelledby="fullness">
        <header><h2 id="fullness" class="hidden">By fullness</h2>
          ${until ? html`<b>Namespaces</b>` : html`<${Tabs} label="What is listed" names=${["Namespaces", "Groups"]} chosen=${list} choose=${choose} />`}
          ${list === "Namespaces" && html`<${Find} text=${text} setText=${setText} route=${route} open=${open} />`}</header>
        ${list === "Groups" && !until ? html`<${Groups} context=${context} />` : html`
          <${Namespaces} context=${context} answer=${answer} search=${search} explain=${explain} showMore=${() => setCount(count + STEP())} />`}
      </section></div><div>
      <${Section} title="Latest denials" id="denials" folds><${Latest} denials=${denials} context=${context} /><//>
      <${Section} title="Limits changed in the last hour" id="changes" folds
          aside=${html`<a href=${address("entries", "", moment(route.query))}>all entries</a>`}>
        <${Changes} context=${context} hours=${1} only="limits" /><//>
    </div></div>
    ${explained && html`<${Explanation} namespace=${explained.namespace} quota=${explained.fullest.quota} figure=${explained.fullest}
      context=${context} close=${() => explain(null)} />`}
  </main>`;
}
