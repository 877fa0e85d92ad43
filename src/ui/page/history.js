// Plots the history of a limit and its usage.

import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import uPlot from "./vendor/uplot.js";
import { of, useAnswer } from "./api.js";
import { useSlow } from "./live.js";
import { State, local } from "./parts.js";
import { number, show } from "./quantity.js";
import { firstOf } from "./timebar.js";

const POINTS = 200;

/** The figures of one limit at the end of each part of the period: times in seconds, used, used and reserved, hard; and
 *  the least and the largest of used and reserved in the part. */
function series(points, quota, resource) {
  const rows = [[], [], [], [], [], []];
  for (const point of points) {
    const figures = quota ? point.quotas.find(({ name }) => name === quota)?.resources : point.resources;
    const figure = figures?.find((figure) => figure.resource === resource);
    const used = figure ? number(figure.used ?? "0") : null;
    rows[0].push(new Date(point.time) / 1000);
    rows[1].push(used);
    rows[2].push(figure ? used + number(figure.reserved) : null);
    rows[3].push(figure?.hard === undefined ? null : number(figure.hard));
    rows[4].push(figure ? number(figure.min.taken) : null);
    rows[5].push(figure ? number(figure.max.taken) : null);
  }
  return rows;
}

/** The changes of the limit itself: time, before, after. */
function changes([times, , , hard]) {
  const found = [];
  for (let index = 1; index < hard.length; index += 1) {
    if (hard[index] !== hard[index - 1]) found.push([times[index], hard[index - 1], hard[index]]);
  }
  return found;
}

/** The labels of the time axis: the part of the date that distinguishes neighbours. */
const times = (_, times, axis, space, step) => times.map((time) => {
  const text = local(new Date(time * 1000));
  return step >= 86400 ? text.slice(5, 10) : text.slice(11, step >= 60 ? 16 : 19);
});

function options(resource, width, choose) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const value = (_, value) => value === null ? "–" : show(value, resource);
  // A point is the end of its part of the period.
  const stepped = uPlot.paths.stepped({ align: -1 });
  const line = (label, stroke, more) => ({ label, stroke: colour(stroke), width: 1.5, paths: stepped, points: { show: false }, value, ...more });
  return {
    width, height: 220,
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), ((high ?? 0) || 1) * 1.08] } },
    axes: [{ ...axis, values: times }, { ...axis, size: 64, values: (_, values) => values.map((value) => show(value, resource)) }],
    series: [
      { value: (_, time) => time ? local(new Date(time * 1000)) : "–" },
      line("used", "--used", { fill: colour("--used-fill") }),
      line("used + reserved", "--reserved"),
      line("hard", "--hard", { dash: [6, 4], width: 2 }),
      line("lowest", "--reserved", { width: 0 }),
      line("highest", "--reserved", { width: 0 }),
    ],
    bands: [{ series: [5, 4], fill: colour("--used-fill") }],
    hooks: {
      ready: [(plot) => plot.over.addEventListener("dblclick", () => {
        if (plot.cursor.idx !== null) choose(plot.data[0][plot.cursor.idx]);
      })],
    },
  };
}

function Plot({ rows, resource, choose, label }) {
  const place = useRef(null);
  const plot = useRef(null);
  const chosen = useRef(choose);
  chosen.current = choose;
  useEffect(() => {
    const element = place.current;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(resource, element.clientWidth, (time) => chosen.current(time)), rows, element);
    };
    draw();
    const size = new ResizeObserver(() => plot.current.setSize({ width: element.clientWidth, height: 220 }));
    size.observe(element);
    dark.addEventListener("change", draw);
    return () => {
      size.disconnect();
      dark.removeEventListener("change", draw);
      plot.current.destroy();
      plot.current = null;
    };
  }, [resource]);
  useEffect(() => plot.current?.setData(rows), [rows]);
  return html`<div class="plot" ref=${place} role="img" aria-label=${label}></div>`;
}

/** The history of a limit up to the displayed moment. */
export function History({ namespace, quotas, chosen, choose, context }) {
  const { span, until, version, showAt } = context;
  // Each request makes the daemon replay entries.
  const slow = useSlow(version, 10e3);
  const work = (path, { signal }) => {
    const to = new Date(until ?? Date.now());
    const length = Math.max(60e3, to - firstOf(span, context.oldest, to));
    const step = `${Math.max(1, Math.ceil(length / POINTS / 1000))}s`;
    const query = { from: new Date(to - length).toISOString(), to: to.toISOString(), step };
    return context.ask(path, { query, signal });
  };
  const answer = useAnswer([of(namespace, "usage/history"), { span, until }], slow, work);
  const [quota, resource] = chosen;
  const rows = series(answer.data?.points ?? [], quota, resource);
  const moved = changes(rows);
  const text = (index) => {
    const measured = rows[index].filter((value) => value !== null);
    return measured.length ? `${show(measured[0], resource)} to ${show(measured[measured.length - 1], resource)}` : "not known";
  };
  const label = `${resource} in ${quota || namespace}: used from ${text(1)}, hard from ${text(3)}`;
  const all = quotas.flatMap(({ name, resources }) => resources.map(({ resource }) => [name, resource]));
  return html`
    <div class="tools"><label>Limit <select value=${JSON.stringify(chosen)} onChange=${(event) => choose(JSON.parse(event.target.value))}>
      ${all.map((limit) => html`<option value=${JSON.stringify(limit)}>${limit[1]} in ${limit[0]}</option>`)}</select></label>
      <span class="quiet">double-click: show that moment</span></div>
    <${State} answer=${answer}>
      <${Plot} rows=${rows} resource=${resource} label=${label} choose=${(seconds) => showAt(new Date(seconds * 1000))} />
      ${moved.length > 0 && html`<ul class="moved">${moved.slice(-5).map(([time, before, after]) => html`<li>
        <button type="button" class="link" onClick=${() => showAt(new Date(time * 1000))}>${local(new Date(time * 1000))}</button>:
        limit ${before === null ? "set to" : after === null ? "removed, was" : `from ${show(before, resource)} to`} <b>${show(after ?? before, resource)}</b></li>`)}</ul>`}
    <//>`;
}
