// Explains a number: the objects and reservations behind it, the largest first, each with the entry that caused it.

import { html, useState } from "./vendor/htm-preact.js";
import { of, pages, useAnswer } from "./api.js";
import { Amount, Dialog, EntryLink, State, Table, Time } from "./parts.js";
import { number, percent } from "./quantity.js";

const STEP = 50;

/** The parts of a number, as a table. */
export function Parts({ namespace, quota, resource, context, label }) {
  const [count, setCount] = useState(STEP);
  const { moment, version, route } = context;
  const question = [of(namespace, "explain"), { resource, quota, ...moment, count }];
  const work = (path, { query: { count, ...query }, signal }) => pages(path, { query, signal }, count);
  const answer = useAnswer(question, version, work);
  const items = answer.data?.items ?? [];
  const whole = number(answer.data?.used ?? "0") + number(answer.data?.reserved ?? "0");
  return html`<${State} answer=${answer} nothing=${answer.data && !items.length && `Nothing counts for ${resource}.`}>
    <${Table} label=${label} columns=${["Object", "Kind", ">Amount", ">Share", "Until", "Entry"]}>
      ${items.map((part) => html`<tr key=${part.kind + part.uid}>
        <th scope="row"><span title=${part.uid}>${part.name || part.uid}</span></th>
        <td>${part.kind === "reservation" && html`<span class="badge reserved">reserved</span> `}${part.resource}</td>
        <td class="right"><${Amount} of=${part.amount} resource=${resource} /></td>
        <td class="right number">${whole > 0 ? percent(number(part.amount) / whole) : "–"}</td>
        <td>${part.expirationTime && html`<${Time} of=${part.expirationTime} date=${false} />`}</td>
        <td><${EntryLink} sequence=${part.sequence} route=${route} namespace=${namespace} /></td>
      </tr>`)}
    <//>
    ${answer.data?.continue && html`<button type="button" onClick=${() => setCount(count + STEP * 4)}>Show more</button>`}
  <//>`;
}

/** The same table in a dialog. */
export const Explanation = ({ namespace, quota, figure, context, close }) => html`
  <${Dialog} title=${`What makes ${figure.resource}${quota ? ` in ${quota}` : ""}`} close=${close}>
    <p>Used <b><${Amount} of=${figure.used ?? "0"} resource=${figure.resource} /></b>, reserved <b><${Amount}
      of=${figure.reserved ?? "0"} resource=${figure.resource} /></b>${figure.hard && html`, hard <b><${Amount}
      of=${figure.hard} resource=${figure.resource} /></b>`}. Each part and the entry that caused it:</p>
    <${Parts} namespace=${namespace} quota=${quota} resource=${figure.resource} context=${context}
      label=${`Parts of ${figure.resource}`} />
  <//>`;
