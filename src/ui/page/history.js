// Plots the history of a limit and its usage, or of all limits of a namespace beside each other.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import uPlot from "./vendor/uplot.js";
import { useAnswer } from "./api.js";
import { Line, Trial } from "./limit.js";
import { useSlow } from "./live.js";
import { State, local } from "./parts.js";
import { isBytes, number, percent, share, show } from "./quantity.js";
import { firstOf } from "./timebar.js";

const POINTS = 200;
const HEIGHT = 240;
/** Most limits that are compared. */
const COMPARED = 6;
/** The choice of all limits, each as its taken share. */
const ALL = ["", ""];
/** Shortest period that is zoomed to, in milliseconds. */
const SHORTEST = 10e3;

/** The figures of a limit in each part of the period; null where there was none. `least` and `most` of what was taken in
 *  it, where the daemon tells them. */
const figures = (points, quota, resource) => points.map((point) => {
  const found = (quota ? point.quotas.find(({ name }) => name === quota)?.resources : point.resources)
    ?.find((figure) => figure.resource === resource);
  if (!found) return null;
  const { used, reserved, hard, min, max } = found;
  const taken = number(used) + number(reserved);
  return {
    used: number(used), taken, hard: hard === undefined ? null : number(hard),
    least: min ? number(min.taken) : taken, most: max ? number(max.taken) : taken,
  };
});

/** The parts of the period with their ends in seconds, at which their numbers held, after its beginning. */
function parts(points) {
  const [first] = points;
  const all = first?.from ? [{ ...first, time: first.from }, ...points] : points;
  return { points: all, times: all.map(({ time }) => new Date(time) / 1000) };
}

/** The lines of one limit. What was taken has a band where it varied within a part of the period. */
function ofOne(points, [quota, resource]) {
  const known = figures(points, quota, resource);
  const values = (pick) => known.map((figure) => figure && pick(figure));
  const lines = [
    { label: "used + reserved", colour: "--reserved", width: 1.5, values: values(({ taken }) => taken), hatchedTo: 2 },
    { label: "used", colour: "--used", width: 1.5, fill: "--used-fill", values: values(({ used }) => used) },
    { label: "hard", colour: "--hard", width: 2, dash: [6, 4], values: values(({ hard }) => hard) },
  ];
  if (known.some((figure) => figure && figure.least !== figure.most)) {
    lines.push({ label: "most", colour: "--reserved", width: 0, values: values(({ most }) => most), filledTo: 5, aside: true },
      { label: "least", colour: "--reserved", width: 0, values: values(({ least }) => least), aside: true });
  }
  return lines;
}

/** The lines of all limits, each as the taken share in percent. */
const ofAll = (points, quotas) => quotas
  .flatMap(({ name, resources }) => resources.map((figure) => ({ name, figure })))
  .sort((a, b) => share(b.figure) - share(a.figure)).slice(0, COMPARED)
  .map(({ name, figure: { resource } }, index) => ({
    label: name ? `${resource} in ${name}` : resource, colour: `--series-${index + 1}`, width: 2,
    values: figures(points, name, resource).map((figure) => figure?.hard > 0 ? (figure.taken / figure.hard) * 100 : null),
  }));

/** The changes of the limit itself: time, before, after. */
function changes(times, hard) {
  const found = [];
  for (let index = 1; index < hard.length; index += 1) {
    if (hard[index] !== hard[index - 1]) found.push([times[index], hard[index - 1], hard[index]]);
  }
  return found;
}

/** The labels of the time axis: the date stands below the first time of each day. */
const ticks = (_, times, axis, space, step) => {
  let day = "";
  return times.map((time) => {
    const text = local(new Date(time * 1000));
    const date = text.slice(5, 10);
    if (step >= 86400) return date;
    const label = text.slice(11, step >= 60 ? 16 : 19) + (date === day ? "" : `\n${date}`);
    day = date;
    return label;
  });
};

/** What the page calls the unit of a resource. */
const unit = (resource) => !resource ? "% of the limit" : isBytes(resource) ? "bytes" : /cpu$/.test(resource) ? "cores" : "count";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The pattern of what is reserved, as in bars. */
function hatch(plot) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const context = tile.getContext("2d");
  context.strokeStyle = style("--reserved");
  context.lineWidth = 2;
  context.stroke(new Path2D("M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"));
  return plot.ctx.createPattern(tile, "repeat");
}

function options({ lines, resource, write }, width, on) {
  const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 } };
  const stepped = uPlot.paths.stepped({ align: -1 });
  const band = ({ hatchedTo, filledTo }, index) => hatchedTo ? [{ series: [index + 1, hatchedTo], fill: hatch }]
    : filledTo ? [{ series: [index + 1, filledTo], fill: style("--reserved-fill") }] : [];
  return {
    width, height: HEIGHT, legend: { show: false }, bands: lines.flatMap(band),
    cursor: { drag: { x: true, setScale: false }, points: { size: 6 } },
    // Shares are seen beside the whole limit.
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (Math.max(high ?? 0, resource ? 0 : 100) || 1) * 1.08] } },
    axes: [{ ...axis, values: ticks, size: 46, space: 70 }, {
      ...axis, size: 64, label: unit(resource), labelSize: 18, labelFont: "12px system-ui",
      // Steps that are round in the unit.
      ...(isBytes(resource) && { incrs: Array.from({ length: 63 }, (_, power) => 2 ** power) }),
      values: (_, values) => values.map((value) => write(value, Math.max(...values))),
    }],
    series: [{}, ...lines.map(({ label, colour, width, dash, fill }) => ({
      label, stroke: style(colour), width, dash, fill: fill && style(fill), paths: stepped, points: { show: false },
    }))],
    hooks: {
      draw: [(plot) => on.current.drawn(plot)],
      setCursor: [(plot) => on.current.point(plot)],
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        if (width > 4) on.current.zoom(plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000);
      }],
      ready: [({ over }) => {
        let from = 0;
        over.addEventListener("pointerdown", (event) => { from = event.clientX; });
        // What follows a drag is not meant as a click, and a finger only looks.
        over.addEventListener("click", (event) => {
          if (event.pointerType !== "touch" && Math.abs(event.clientX - from) <= 4) on.current.choose();
        });
      }],
    },
  };
}

/** A plot with a text at the cursor. `drawn`: times, lines, resource, and how to write a value. `over`: what is placed over
 *  it, given its scale. */
function Plot({ drawn, label, choose, zoom, look, over: above }) {
  const [scale, setScale] = useState(null);
  const place = useRef(null);
  const plot = useRef(null);
  const tip = useRef(null);
  const on = useRef({});
  const { times, lines, write } = drawn;
  const point = ({ cursor, over }) => {
    const { idx, left } = cursor;
    const isShown = idx !== null && idx !== undefined && left >= 0;
    tip.current.hidden = !isShown;
    look(isShown ? times[idx] : null);
    if (!isShown) return;
    const rows = lines.filter(({ values }) => values[idx] !== null).map(({ label, values }) => `${label}: ${write(values[idx])}`);
    tip.current.textContent = [local(new Date(times[idx] * 1000)), ...rows].join("\n");
    const begin = over.offsetLeft + left;
    const { offsetWidth } = tip.current;
    tip.current.style.left = `${begin + 14 + offsetWidth > place.current.clientWidth ? Math.max(0, begin - 14 - offsetWidth) : begin + 14}px`;
  };
  // Where a value is in the plot, and which value is where.
  const measured = (plot) => setScale((before) => {
    const { over, scales: { y: { min, max } } } = plot;
    const key = [min, max, over.offsetTop, over.clientHeight].join();
    return before?.key === key ? before : {
      key, most: max,
      top: (value) => over.offsetTop + Math.max(0, Math.min(over.clientHeight, plot.valToPos(value, "y"))),
      at: (y) => plot.posToVal(y - over.getBoundingClientRect().top, "y"),
    };
  });
  on.current = { point, zoom, drawn: measured, choose: () => { if (plot.current.cursor.idx !== null) choose(times[plot.current.cursor.idx]); } };
  const data = [times, ...lines.map(({ values }) => values)];
  const shape = JSON.stringify([drawn.resource, lines.map(({ label }) => label)]);
  useEffect(() => {
    const element = place.current;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(drawn, element.clientWidth, on), data, element);
    };
    draw();
    const size = new ResizeObserver(() => plot.current.setSize({ width: element.clientWidth, height: HEIGHT }));
    size.observe(element);
    dark.addEventListener("change", draw);
    return () => {
      size.disconnect();
      dark.removeEventListener("change", draw);
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [drawn]);
  return html`<div class="frame"><div class="plot" role="img" aria-label=${label} ref=${place}><div class="tip" ref=${tip} hidden></div></div>
      ${scale && above?.(scale)}</div>
    <ul class="legend">${lines.filter(({ aside }) => !aside).map(({ label, colour, hatchedTo, dash }) => html`<li>
      <span class="swatch ${hatchedTo ? "hatched" : dash ? "dashed" : ""}" style=${{ color: `var(${colour})` }}></span>${label}</li>`)}
      ${lines.some(({ aside }) => aside) && html`<li><span class="swatch faint" style=${{ color: "var(--reserved)" }}></span>least to most of both</li>`}</ul>`;
}

/** The history of limits up to the displayed moment: of the quotas of a namespace, or of a group, which has one list of
 *  limits without a name. Another limit can be tried of a quota, and of the group that is named. */
export function History({ path, name, group, quotas, chosen, choose, context }) {
  const [candidate, tryLimit] = useState(null);
  const { span, until, version, showAt } = context;
  const [zoomed, zoom] = useState(null);
  const [looked, look] = useState(null);
  // Each request makes the daemon replay entries.
  const slow = useSlow(version, 10e3);
  const whole = () => {
    const to = new Date(until ?? Date.now());
    return [to - Math.max(60e3, to - firstOf(span, context.oldest, to)), Number(to)];
  };
  const work = (path, { signal }) => {
    const [from, to] = zoomed ?? whole();
    const step = `${Math.max(1, Math.ceil((to - from) / POINTS / 1000))}s`;
    return context.ask(path, { query: { from: new Date(from).toISOString(), to: new Date(to).toISOString(), step }, signal });
  };
  useEffect(() => zoom(null), [span, until]);
  useEffect(() => tryLimit(null), [until, JSON.stringify(chosen)]);
  // The period in which a limit is tried stands, so that its outcomes can be compared.
  const tried = useRef(null);
  if (candidate === null) tried.current = null;
  else tried.current ??= new Date((zoomed ?? whole())[0]).toISOString();
  const answer = useAnswer([path, { span, until, zoomed }], zoomed ? 0 : slow, work);
  const [quota, resource] = chosen;
  const drawn = useRef({});
  const key = [answer.data, JSON.stringify(chosen)];
  if (!key.every((part, index) => drawn.current.key?.[index] === part) || !drawn.current.key) {
    const { points, times } = parts(answer.data?.points ?? []);
    const lines = resource ? ofOne(points, chosen) : ofAll(points, quotas);
    const write = (value, least) => resource ? show(value, resource, least) : percent(value / 100);
    drawn.current = { key, lines, resource, write, times };
  }
  const { times, lines } = drawn.current;
  const line = (label) => lines.find((line) => line.label === label)?.values ?? [];
  const moved = resource ? changes(times, line("hard")) : [];
  const text = (label) => {
    const measured = line(label).filter((value) => value !== null);
    return measured.length ? `${show(measured[0], resource)} to ${show(measured[measured.length - 1], resource)}` : "not known";
  };
  const label = resource ? `${resource} in ${quota || name}: used from ${text("used")}, hard from ${text("hard")}`
    : `Limits of ${name}: ${lines.map(({ label, values }) => `${label} ${percent((values.findLast((value) => value !== null) ?? 0) / 100)}`).join(", ")}`;
  const present = quotas.find(({ name }) => name === quota)?.resources.find((figure) => figure.resource === resource)?.hard;
  const candidateLine = (scale) => candidate !== null && html`<${Line} scale=${scale} value=${Math.max(0, number(candidate) || 0)} resource=${resource}
    change=${tryLimit} label=${`Another limit of ${resource}`} />`;
  const all = quotas.flatMap(({ name, resources }) => resources.map(({ resource }) => [name, resource]));
  const closer = () => {
    const [from, to] = zoomed ?? whole();
    const quarter = (to - from) / 4;
    const middle = Math.min(to - quarter, Math.max(from + quarter, looked ? looked * 1000 : (from + to) / 2));
    zoomTo(middle - quarter, middle + quarter);
  };
  const zoomTo = (from, to) => zoom([Math.round(from), Math.round(Math.max(to, from + SHORTEST))]);
  return html`
    <div class="tools"><label>Limit <select value=${JSON.stringify(chosen)} onChange=${(event) => choose(JSON.parse(event.target.value))}>
      ${all.map((limit) => html`<option value=${JSON.stringify(limit)}>${limit[1]}${limit[0] && ` in ${limit[0]}`}</option>`)}
      ${all.length > 1 && html`<option value=${JSON.stringify(ALL)}>all, in percent</option>`}</select></label>
      <span class="steps"><button type="button" onClick=${closer}>Zoom in</button>
        <button type="button" disabled=${!zoomed} onClick=${() => zoom(null)}>Whole span</button>
        ${(quota || group) && present && !until && candidate === null && html`<button type="button" onClick=${() => tryLimit(present)}>Try another limit</button>`}
        <button type="button" class="touch" disabled=${!looked} onClick=${() => showAt(new Date(looked * 1000))}>Show this moment</button></span>
      <span class="quiet mouse">click: show that moment; drag: zoom</span></div>
    <${State} answer=${answer}>
      <${Plot} drawn=${drawn.current} label=${label} zoom=${zoomTo} look=${look} choose=${(seconds) => showAt(new Date(seconds * 1000))} over=${candidateLine} />
      ${candidate !== null && html`<${Trial} of=${quota ? { namespace: name, quota } : { group }} resource=${resource} from=${tried.current} hard=${candidate} change=${tryLimit} />`}
      ${moved.length > 0 && html`<ul class="moved">${moved.slice(-5).map(([time, before, after]) => html`<li>
        <button type="button" class="link" onClick=${() => showAt(new Date(time * 1000))}>${local(new Date(time * 1000))}</button>:
        limit ${before === null ? "set to" : after === null ? "removed, was" : `from ${show(before, resource)} to`} <b>${show(after ?? before, resource)}</b></li>`)}</ul>`}
    <//>`;
}
