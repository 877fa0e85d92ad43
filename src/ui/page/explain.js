// Explains a number of a namespace or group: the objects and reservations behind it by workload, each with the entry that
// caused it, and the entry that set its limit.

import { html, useState } from "./vendor/htm-preact.js";
import { ask, of, pages, useAnswer } from "./api.js";
import { By } from "./entries.js";
import { Amount, Dialog, EntryLink, NamespaceLink, State, Table, Time } from "./parts.js";
import { number, percent } from "./quantity.js";

const STEP = 500;
/** Most requests in search of the entry that set a limit. */
const REQUESTS = 20;

/** The end of a generated name: the hash of a template, and five characters; or the ordinal of a StatefulSet. */
const GENERATED = /(-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-\d{8,})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-\d+$/;

/** Parts of one kind with the same name but for what was generated: the ledger does not keep owners. The largest first. */
function workloads(parts) {
  const found = new Map();
  for (const part of parts) {
    const name = part.name.replace(GENERATED, "");
    const key = [part.namespace, part.kind, part.resource, name || part.uid].join(" ");
    const workload = found.get(key) ?? { key, name, parts: [], amount: 0 };
    workload.parts.push(part);
    workload.amount += number(part.amount);
    found.set(key, workload);
  }
  return [...found.values()].sort((a, b) => b.amount - a.amount);
}

/** The objects and reservations behind a number of a namespace, or of a group in all its namespaces, as a table. */
export function Parts({ namespace, group, quota, resource, context, label }) {
  const [count, setCount] = useState(STEP);
  const [opened, open] = useState(null);
  const { moment, version, route } = context;
  const path = group ? `v1/groups/${encodeURIComponent(group)}/explain` : of(namespace, "explain");
  const question = [path, { resource, quota, ...moment, count }];
  const work = (path, { query: { count, ...query }, signal }) => pages(path, { query, signal }, count);
  const answer = useAnswer(question, version, work);
  const items = answer.data?.items ?? [];
  const whole = number(answer.data?.used) + number(answer.data?.reserved);
  const least = Math.max(0, ...items.map(({ amount }) => number(amount)));
  const row = (key, name, part, amount, entry) => html`<tr key=${key}>
    <th scope="row">${name}</th>
    ${group && html`<td><${NamespaceLink} name=${part.namespace} route=${route} /></td>`}
    <td class="wraps">${part.kind === "reservation" && html`<span class="badge reserved">reserved</span> `}${part.resource}</td>
    <td class="right"><${Amount} of=${amount} resource=${resource} least=${least} /></td>
    <td class="right number">${whole > 0 ? percent(number(amount) / whole) : "–"}</td>
    <td class="wraps">${entry}</td></tr>`;
  const single = (part, inside) => row([part.namespace, part.kind, part.uid].join(" "),
    html`<span class=${inside ? "inside" : ""} title=${part.uid}>${part.name || part.uid}</span>`, part, part.amount,
    html`<${EntryLink} sequence=${part.sequence} route=${route} namespace=${part.namespace ?? namespace} />
      ${part.expirationTime && html` <span class="quiet">until <${Time} of=${part.expirationTime} date=${false} /></span>`}`);
  const several = ({ key, name, parts, amount }) => [
    row(key, html`<button type="button" class="link" aria-expanded=${opened === key} onClick=${() => open(opened === key ? null : key)}>${name}
      <span class="number"> ×${parts.length}</span></button>`, parts[0], String(amount), ""),
    opened === key && parts.map((part) => single(part, true)),
  ];
  return html`<${State} answer=${answer} nothing=${answer.data && !items.length && `Nothing counts for ${resource}.`}>
    <${Table} label=${label} columns=${["Object", ...(group ? ["Namespace"] : []), "Kind", ">Amount", ">Share", "Entry"]}>
      ${workloads(items).map((workload) => workload.parts.length > 1 ? several(workload) : single(workload.parts[0]))}
    <//>
    ${answer.data?.continue && html`<p class="foot"><span>the largest ${items.length}</span>
      <button type="button" onClick=${() => setCount(count + STEP * 4)}>Show more</button></p>`}
    ${answer.data?.namespacesOmitted > 0 && html`<p class="quiet">without the ${answer.data.namespacesOmitted} namespaces that take least</p>`}
  <//>`;
}

/** The newest entry that set a quota or group, up to the displayed moment; none if it is not found. */
async function setting(namespace, { query: { type, name, from }, signal }) {
  let answer;
  for (let requests = 0; requests < REQUESTS && (!answer || answer.continue); requests += 1) {
    answer = await ask("v1/entries", { query: { order: "desc", namespace, ...(answer ? { continue: answer.continue } : { from }) }, signal });
    const found = answer.items.find(({ event }) => event.type === type && event.name === name);
    if (found) return found;
  }
  return null;
}

/** The same table in a dialog, and the entry that set the limit. */
export function Explanation({ namespace, group, quota, figure, context, close }) {
  // Entries about groups are not of the namespace.
  const limit = group ? { type: "GroupSet", name: group } : quota && figure.kind !== "ClusterResourceQuota" && { type: "QuotaSet", name: quota };
  const set = useAnswer(limit ? [namespace, { ...limit, from: context.sequence }] : null, 0, setting);
  const amount = (of) => html`<b><${Amount} of=${of} resource=${figure.resource} least=${figure.hard && number(figure.hard)} /></b>`;
  return html`<${Dialog} title=${`What makes ${figure.resource}${group ? ` in group ${group}` : quota ? ` in ${quota}` : ""}`} close=${close}>
    <p>Used ${amount(figure.used ?? "0")}, reserved ${amount(figure.reserved ?? "0")}${figure.hard && html`, hard ${amount(figure.hard)}`}.</p>
    ${set.data && html`<p class="set">The limit was set by entry <${EntryLink} sequence=${set.data.sequence} route=${context.route}
      namespace=${namespace} />, <${Time} of=${set.data.time} />, <${By} entry=${set.data} />.</p>`}
    <${Parts} namespace=${namespace} group=${group} quota=${quota} resource=${figure.resource} context=${context}
      label=${`Parts of ${figure.resource}`} />
  <//>`;
}
