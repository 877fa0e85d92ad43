// What was consumed in a period: exact, by namespace, group, label, kind or workload.

import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { ask, send, useAnswer } from "./api.js";
import { Amount, EntryLink, NamespaceLink, Section, State, Table, Time, duration, local } from "./parts.js";
import { isBytes, number, percent, show } from "./quantity.js";
import { change } from "./route.js";

const DAY = 24 * 3600e3;
const STEP = 100;
/** Most parts of the period in the plot, and their lengths. */
const PARTS = 15;
const LENGTHS = [2, 24, 48, 72].map((hours) => hours * 3600e3);
/** Most series in the plot; the last one has what the others leave. */
const SERIES = 6;
const OTHERS = "others";

/** The periods: their names, and their beginning and end. Months are those of the user's time zone. */
const PERIODS = {
  "24h": ["last 24 hours", (now) => [now - DAY, now]],
  "7d": ["last 7 days", (now) => [now - 7 * DAY, now]],
  "30d": ["last 30 days", (now) => [now - 30 * DAY, now]],
  month: ["this month", (now) => [month(now, 0), now]],
  before: ["last month", (now) => [month(now, -1), month(now, 0)]],
};
const month = (now, by) => Number(new Date(now.getFullYear(), now.getMonth() + by));

const BY = { namespace: "Namespace", group: "Group", label: "Label", kind: "Kind", workload: "Workload" };

/** An amount times hours. */
const hours = (text, resource) => html`<span class="number" title=${`${text} unit-hours`}>${show(number(text), resource)}${isBytes(resource) ? " h" : ""}</span>`;

function Key({ of, route }) {
  const { namespace, name, kind, group } = of;
  if (kind && name) return html`<${NamespaceLink} name=${namespace} route=${route} /> ${kind}/${name}`;
  if (namespace) return html`<${NamespaceLink} name=${namespace} route=${route} />`;
  return group ?? Object.values(of).join(" ");
}

function Row({ row: { key, figures }, resource, whole, route }) {
  const { consumed, mean, peak, peakSequence, p95, limitHours, timeFull, grants, denials } = figures;
  const part = whole > 0 ? number(consumed) / whole : 0;
  return html`<tr>
    <th scope="row"><${Key} of=${key} route=${route} /></th>
    <td class="bars"><span class="bar" role="img" aria-label=${`${percent(part)} of all`} title=${`${percent(part)} of all`}>
      <span class="used" style=${{ width: `${part * 100}%` }}></span></span></td>
    <td class="right">${hours(consumed, resource)}</td>
    <td class="right number">${number(limitHours) > 0 ? percent(number(consumed) / number(limitHours)) : ""}</td>
    <td class="right number" title=${mean}>${show(number(mean), resource)}</td>
    <td class="right"><${Amount} of=${peak} resource=${resource} />${peakSequence && html` <${EntryLink} sequence=${peakSequence} route=${{ query: {} }} namespace=${key.namespace} />`}</td>
    <td class="right"><${Amount} of=${p95} resource=${resource} /></td>
    <td class="right number">${timeFull && number(timeFull.replace("s", "")) > 0 ? duration(number(timeFull.replace("s", "")) * 1000) : ""}</td>
    <td class="right number">${grants}</td><td class="right number">${denials || ""}</td>
  </tr>`;
}

/** The parts of a period, at most `PARTS` of them: their beginnings and ends in milliseconds. */
function parts(from, to) {
  const [begin, end] = [Number(new Date(from)), Number(new Date(to))];
  const step = LENGTHS.find((step) => step * PARTS >= end - begin) ?? (end - begin) / PARTS;
  return Array.from({ length: Math.ceil((end - begin) / step) }, (_, index) => [begin + index * step, Math.min(end, begin + (index + 1) * step)]);
}

const nameOf = (key) => Object.values(key).join(" ");

/** What the largest rows consumed in each part of the period, above each other. Reports of its parts add up to that of the
 *  whole. */
function Stack({ query, rows, resource, oldest }) {
  const shown = rows.slice(0, SERIES - 1).map(({ key }) => nameOf(key));
  const series = rows.length > SERIES - 1 ? [...shown, OTHERS] : shown;
  const work = async (path, { query: { from, to, by }, signal }) => {
    const found = [];
    const first = Number(new Date(oldest ?? from));
    const text = (time) => new Date(time).toISOString();
    for (const [begin, end] of parts(from, to)) {
      const start = new Date(begin);
      // Before the ledger begins there is nothing to ask for.
      const { rows } = end <= first ? { rows: [] } : await ask(path, { query: { from: text(Math.max(begin, first)), to: text(end), by }, signal });
      found.push({ start, rows: rows.map(({ key, resources }) => [nameOf(key), Object.entries(resources).map(([name, { consumed }]) => [name, number(consumed)])]) });
    }
    return found;
  };
  const answer = useAnswer(["v1/report", query], 0, work);
  const columns = (answer.data ?? []).map(({ start, rows }) => {
    const amounts = Object.fromEntries(series.map((name) => [name, 0]));
    for (const [name, resources] of rows) {
      const place = shown.includes(name) ? name : OTHERS;
      for (const [of, consumed] of resources) if (of === resource) amounts[place] = (amounts[place] ?? 0) + consumed;
    }
    return { start, amounts, sum: Object.values(amounts).reduce((sum, amount) => sum + amount, 0) };
  });
  const most = Math.max(...columns.map(({ sum }) => sum), 0);
  const write = (amount) => `${show(amount, resource, most)}${isBytes(resource) ? " h" : ""}`;
  const when = (start) => local(start).slice(5, 16);
  const label = `Unit-hours of ${resource} over the period: ${columns.map(({ start, sum }) => `${when(start)} ${write(sum)}`).join(", ")}`;
  return html`<${State} answer=${answer} nothing=${answer.data && !(most > 0) && "Nothing was consumed in its parts."}>
    <div class="stack" role="img" aria-label=${label}><span class="most number">${write(most)}</span>
      ${columns.map(({ start, amounts, sum }) => html`<div class="column" title=${[when(start), ...series.filter((name) => amounts[name] > 0).map((name) => `${name}: ${write(amounts[name])}`), `all: ${write(sum)}`].join("\n")}>
        ${series.map((name, index) => amounts[name] > 0 && html`<span style=${{ height: `${amounts[name] / most * 100}%`, background: `var(--series-${index + 1})` }}></span>`)}
        <small>${when(start).slice(0, 5)}<br />${when(start).slice(6)}</small></div>`)}</div>
    <ul class="legend">${series.map((name, index) => html`<li><span class="swatch" style=${{ color: `var(--series-${index + 1})` }}></span>${name}</li>`)}</ul>
  <//>`;
}

/** Saves the answer as a file. */
async function download(query) {
  const answer = await send("v1/report", { query, accept: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = `report-${query.by.replace(/[^a-z0-9]+/gi, "-")}-${query.from.slice(0, 10)}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function Report({ context }) {
  const { route } = context;
  const { period = "7d", by = "namespace", label = "" } = route.query;
  const [shown, more] = useState(STEP);
  const [failed, fail] = useState(null);
  const [from, to] = useMemo(() => (PERIODS[period] ?? PERIODS["7d"])[1](new Date()).map((time) => new Date(time).toISOString()), [period]);
  const query = { from, to, by: by === "label" ? `label:${label}` : by };
  const isAsked = by !== "label" || label;
  const answer = useAnswer(isAsked ? ["v1/report", query] : null, 0);
  const total = answer.data?.total ?? {};
  const names = Object.keys(total);
  const resource = names.includes(route.query.resource) ? route.query.resource
    : ["requests.cpu", "cpu", "pods"].find((name) => names.includes(name)) ?? names[0];
  const rows = (answer.data?.rows ?? []).filter(({ resources }) => resources[resource])
    .map(({ key, resources }) => ({ key, figures: resources[resource] }))
    .sort((a, b) => number(b.figures.consumed) - number(a.figures.consumed));
  const whole = number(total[resource]?.consumed);
  const { firstSequence, lastSequence, denialsSince } = answer.data ?? {};
  const select = (name, options, value) => html`<label>${name} <select value=${value}
    onChange=${(event) => change(route, { [name.toLowerCase()]: event.target.value })}>${options.map(([name, text]) => html`<option value=${name}>${text}</option>`)}</select></label>`;
  return html`<main id="main"><h1>Report</h1><div class="cards">
    <${Section} title="What was consumed" id="report">
      <div class="tools">${select("Period", Object.entries(PERIODS).map(([name, [text]]) => [name, text]), period)}
        ${select("By", Object.entries(BY), by)}
        ${by === "label" && html`<label>Label <input key=${label} defaultValue=${label} placeholder="team" autocapitalize="none" spellcheck="false"
          onChange=${(event) => change(route, { label: event.target.value.trim() })} /></label>`}
        ${names.length > 0 && select("Resource", names.map((name) => [name, name]), resource)}
        ${answer.data && html`<button type="button" onClick=${() => download(query).then(() => fail(null), fail)}>Download CSV</button>`}</div>
      ${failed && html`<p class="problem" role="alert">${failed.message}</p>`}
      ${!isAsked ? html`<p class="quiet">Which label? For example <code>team</code>.</p>` : html`
      <${State} answer=${answer} nothing=${answer.data && !rows.length && "Nothing was consumed in this period."}>
        <${Table} label="Consumption" columns=${[BY[by], "-Share", ">Unit-hours", ">Of the limit", ">Mean", ">Peak", ">95%", ">Time full", ">Grants", ">Denials"]}>
          ${rows.slice(0, shown).map((row) => html`<${Row} key=${JSON.stringify(row.key)} row=${row} resource=${resource} whole=${whole} route=${route} />`)}
        <//>
        <p class="foot"><span>${Math.min(shown, rows.length)} of ${rows.length}; all together ${hours(total[resource]?.consumed, resource)}${firstSequence && html`, from entry <span
          class="number">#${firstSequence}</span> to <span class="number">#${lastSequence}</span>`}${denialsSince && html`; denials are remembered since <${Time} of=${denialsSince} />`}</span>
          ${rows.length > shown && html`<button type="button" onClick=${() => more(shown + STEP)}>Show ${STEP} more</button>`}</p>
      <//>`}
    <//>
    ${rows.length > 0 && html`<${Section} title="Over time" id="stack"><${Stack} query=${query} rows=${rows} resource=${resource} oldest=${context.oldest} /><//>`}
  </div></main>`;
}
