// Another limit, tried on the recorded past: a line in the plot that is dragged, or a number.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { of, send, useAnswer } from "./api.js";
import { Time } from "./parts.js";
import { isBytes, number, show } from "./quantity.js";

/** How long a limit has to stand before it is tried, in milliseconds: each trial replays entries. */
const PAUSE = 500;
/** Steps of the line over the height of the plot. */
const STEPS = 100;

/** A number as a quantity of a resource: whole objects, millicores, mebibytes. */
export function quantity(value, resource) {
  if (isBytes(resource)) {
    const mebibytes = Math.round(value / 2 ** 20);
    return mebibytes && mebibytes % 1024 === 0 ? `${mebibytes / 1024}Gi` : `${mebibytes}Mi`;
  }
  if (!/cpu$/.test(resource)) return String(Math.round(value));
  return value % 1 === 0 ? String(value) : `${Math.round(value * 1000)}m`;
}

/** The annotations of a group that say how it limits. */
const EXTENSION = /^quota-ledger\.io\//;

/** A quota or group with another limit, as far as it is written by people. */
function changed({ metadata: { name, namespace, annotations = {} }, spec }, resource, hard) {
  const quota = { ...(spec.quota ?? spec), hard: { ...(spec.quota ?? spec).hard, [resource]: hard } };
  if (!spec.quota) return { apiVersion: "v1", kind: "ResourceQuota", metadata: { name, namespace }, spec: quota };
  const kept = Object.entries(annotations).filter(([key]) => EXTENSION.test(key));
  return { apiVersion: "quota.openshift.io/v1", kind: "ClusterResourceQuota", metadata: { name, ...(kept.length && { annotations: Object.fromEntries(kept) }) },
    spec: { selector: spec.selector, quota } };
}

/** A word as YAML. */
const word = (text) => /^[a-z][\w./-]*$/i.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text) ? text : JSON.stringify(text);

/** The lines of an object as YAML: the amounts are quoted, and lists are JSON, which YAML is. */
const yaml = (object, indent = "", isQuoted = false) => Object.entries(object).flatMap(([key, value]) =>
  value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length
    ? [`${indent}${word(key)}:`, ...yaml(value, `${indent}  `, key === "hard")]
    : [`${indent}${word(key)}: ${typeof value === "string" && !isQuoted ? word(value) : JSON.stringify(value)}`]);

/** The line of a limit over a plot. `scale` places it, and reads where it is dropped. */
export function Line({ scale, value, resource, change, label }) {
  const handle = useRef(null);
  const drag = useRef(false);
  const { top, at, most } = scale;
  const step = isBytes(resource) ? Math.max(2 ** 20, 2 ** Math.round(Math.log2(most / STEPS))) : /cpu$/.test(resource) ? Math.max(0.001, Math.round(most * 1000 / STEPS) / 1000)
    : Math.max(1, Math.round(most / STEPS));
  const to = (value) => change(quantity(Math.max(0, Math.round(value / step) * step), resource));
  const keys = { ArrowUp: step, ArrowDown: -step, PageUp: 10 * step, PageDown: -10 * step };
  const end = () => { drag.current = false; };
  return html`<div class="candidate" ref=${handle} style=${{ top: `${top(value)}px` }} role="slider" tabindex="0" aria-orientation="vertical"
    aria-label=${label} aria-valuemin="0" aria-valuemax=${most} aria-valuenow=${value} aria-valuetext=${quantity(value, resource)}
    onPointerDown=${(event) => { drag.current = true; handle.current.setPointerCapture(event.pointerId); }}
    onPointerMove=${(event) => { if (drag.current) to(at(event.clientY)); }} onPointerUp=${end} onPointerCancel=${end}
    onKeyDown=${(event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      to(value + keys[event.key]);
    }}><span>${quantity(value, resource)}</span></div>`;
}

/** What a limit would have done, in words. */
function Outcome({ answer, name, kind, resource, hard }) {
  if (answer.error) return html`<p class="problem" role="alert">${answer.error.message}</p>`;
  if (!answer.data || answer.stale) return html`<p class="quiet" role="status">Deciding the past again …</p>`;
  const { limits, denialsGranted } = answer.data;
  const limit = limits.find((limit) => limit.kind === kind && limit.name === name && limit.resource === resource);
  const all = `${limit?.grants} grant${limit?.grants === 1 ? "" : "s"}`;
  const amount = (of) => html`<b>${show(number(of), resource)}</b>`;
  if (!limit) return html`<p role="status">Nothing of it was asked for in this span.</p>`;
  return html`<p role="status" class=${limit.refused ? "problem" : ""}>${limit.refused
      ? html`<b>${hard}</b> would have refused <b>${limit.refused}</b> of ${all}, the first at <${Time} of=${limit.firstRefused} brief />.`
      : html`<b>${hard}</b> would have refused none of ${all}.`}${" "}
    The peak was ${amount(limit.peak)}; the least limit that refuses none is ${amount(limit.leastRefusingNone)}.
    ${denialsGranted > 0 && ` ${denialsGranted} of the remembered denials would have been granted.`}</p>`;
}

/** The number of a limit that is tried, and what it would have done from a moment on. */
export function Trial({ of: { namespace, quota, group }, resource, from, hard, change }) {
  const current = useAnswer([group ? `apis/quota.openshift.io/v1/clusterresourcequotas/${encodeURIComponent(group)}`
    : of(namespace, `quotas/${encodeURIComponent(quota)}`), {}], 0);
  const [tried, tryIt] = useState(hard);
  const [copied, copy] = useState(false);
  useEffect(() => {
    copy(false);
    const timer = setTimeout(() => tryIt(hard), PAUSE);
    return () => clearTimeout(timer);
  }, [hard]);
  const text = current.data && [...yaml(changed(current.data, resource, hard)), ""].join("\n");
  const work = async (path, { query: { hard, from }, signal }) => {
    const limits = { [group ? "groups" : "quotas"]: [changed(current.data, resource, hard)] };
    const answer = await send(path, { method: "POST", type: "application/json", body: JSON.stringify({ from, ...limits }), signal });
    return answer.json();
  };
  const isAmount = Number.isFinite(number(tried)) && tried !== "";
  const answer = useAnswer(current.data && isAmount ? ["v1/simulate", { hard: tried, from }] : null, 0, work);
  return html`<div class="trial">
    <div class="tools"><label>Instead <input value=${hard} aria-label="Limit to try" size="8" spellcheck="false"
        onInput=${(event) => change(event.target.value.trim())} /></label>
      <button type="button" disabled=${!text} onClick=${() => navigator.clipboard.writeText(text).then(() => copy(true), () => copy(false))}>${copied ? "Copied" : "Copy the manifest"}</button>
      <button type="button" onClick=${() => change(null)}>Close</button></div>
    ${current.error ? html`<p class="problem" role="alert">${current.error.message}</p>`
      : !isAmount ? html`<p class="problem" role="alert">That is not an amount.</p>`
      : html`<${Outcome} answer=${answer} name=${group ?? quota} kind=${group ? "ClusterResourceQuota" : "ResourceQuota"} resource=${resource} hard=${tried} />`}
    ${text && html`<details><summary>Manifest</summary><pre tabindex="0">${text}</pre></details>`}
  </div>`;
}
