// What was consumed in a period: exact, by namespace, group, label, kind or workload.

import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { send, useAnswer } from "./api.js";
import { Amount, EntryLink, NamespaceLink, Section, State, Table, Time, duration } from "./parts.js";
import { isBytes, number, percent, show } from "./quantity.js";
import { change } from "./route.js";

const DAY = 24 * 3600e3;
const STEP = 100;

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
  </div></main>`;
}
