// One namespace: what needs attention, its quotas and their history, its objects, denials and reservations.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { of, pages, useAnswer } from "./api.js";
import { Denials, Last, useDenials } from "./denials.js";
import { Changes } from "./entries.js";
import { Explanation, Parts } from "./explain.js";
import { Counting } from "./groups.js";
import { History } from "./history.js";
import { Forbidden, UnknownNamespace } from "./missing.js";
import { Amount, Bar, Countdown, Figure, Section, State, Table, Time, level, limitName, useClock } from "./parts.js";
import { amounts, leastBytes, number, percent, share, show, withRoom } from "./quantity.js";
import { address, moment } from "./route.js";

const byShare = (a, b) => share(b) - share(a);

/** For each resource the limit that leaves least, the fullest first: of a quota, or of a group above the namespace. */
function binding({ room, quotas }) {
  if (room) return Object.entries(room).map(([resource, { available, boundBy }]) => ({ resource, available, ...boundBy })).sort(byShare);
  const least = {};
  for (const { name, resources } of quotas) {
    for (const figure of resources) {
      const known = least[figure.resource];
      if (!known || number(figure.available) < number(known.available)) least[figure.resource] = { ...figure, name };
    }
  }
  return Object.values(least).sort(byShare);
}

/** The latest denial, and the limits that are full or almost. */
function Attention({ usage, denials, least }) {
  const bound = binding(usage);
  const tight = bound.filter((figure) => level(share(figure)));
  const line = ({ hard, available, resource, kind, name }) => {
    const amount = (value) => show(value, resource, least);
    const room = number(available);
    return `${room < 0 ? `${amount(-room)} over` : `${amount(room)} left of`} ${amount(number(hard))} in ${kind === "ClusterResourceQuota" ? "group" : "quota"} ${name}`;
  };
  const [closest] = bound;
  return html`<ul class="attention">
    <${Last} denials=${denials} />
    ${tight.map((figure) => html`<li key=${figure.resource}><b class="number share ${level(share(figure))}">${percent(share(figure))}</b>${" "}
      <span><b>${figure.resource}</b>: ${line(figure)}</span></li>`)}
    ${tight.length === 0 && html`<li><b class="share">OK</b>${" "}<span>${closest ? html`No limit is at 90% or more. The closest is <b>${closest.resource}</b>: ${line(closest)}.`
      : "Nothing limits this namespace."}</span></li>`}
  </ul>`;
}

/** The severity of the amount that is left. */
const tight = (figure) => number(figure.room) < 0 ? "over" : number(figure.room) === 0 && number(figure.hard) > 0 ? "full" : "";

function Quotas({ namespace, quotas, least, explain, plot }) {
  const columns = ["Resource", "-Bar", ">Taken", ">Used", ">Reserved", ">Hard", ">Available", "-Plot"];
  return html`<${Table} label=${`Limits of ${namespace}`} kind="limits" columns=${columns}>
    ${quotas.map(({ name, resources }) => [
      html`<tr key=${name} class="of"><th colspan="8" scope="rowgroup">${name}</th></tr>`,
      [...resources].sort(byShare).map((figure) => {
        const open = (figure) => explain({ quota: name, figure });
        const number = (of, name) => of === undefined ? "–" : html`<${Figure} figure=${figure} of=${of} name=${name} least=${least} explain=${open} />`;
        return html`<tr key=${name + "/" + figure.resource}>
          <th scope="row">${figure.resource}${figure.boundBy && html`<span class="quiet by">bound by ${limitName(figure.boundBy)}</span>`}</th>
          <td class="bars"><${Bar} figure=${figure} /></td>
          <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
          <td class="right">${number(figure.used, "used")}</td>
          <td class="right">${number(figure.reserved, "reserved")}</td>
          <td class="right">${number(figure.hard, "hard")}</td>
          <td class="right share ${tight(figure)}"><${Amount} of=${figure.room} resource=${figure.resource} least=${least} /></td>
          <td class="right"><button type="button" class="link" onClick=${() => plot([name, figure.resource])} aria-label=${`plot ${figure.resource}`}>plot</button></td>
        </tr>`;
      }),
    ])}
  <//>`;
}

function Reservations({ namespace, context }) {
  const { moment: when, version, until } = context;
  const work = (path, { query, signal }) => pages(path, { query, signal }, 500);
  const answer = useAnswer([of(namespace, "reservations"), when], version, work);
  const clock = useClock(!until);
  const now = until ? new Date(until) : clock;
  const items = [...(answer.data?.items ?? [])].sort((a, b) => a.expirationTime < b.expirationTime ? -1 : 1);
  return html`<${State} answer=${answer} nothing=${answer.data && !items.length && "None is pending."}>
    <${Table} label="Pending reservations" columns=${["For", "Holds", ">Expires in", "Granted"]}>
      ${items.map(({ reservedBy, reserved, createdTime, expirationTime }) => html`<tr key=${reservedBy.uid}>
        <th scope="row" title=${reservedBy.uid}>${reservedBy.kind && `${reservedBy.kind} `}${reservedBy.name || reservedBy.uid}</th>
        <td class="wraps">${amounts(reserved)}</td>
        <td class="right"><${Countdown} until=${expirationTime} now=${now} /></td>
        <td><${Time} of=${createdTime} brief /></td></tr>`)}
    <//>
    ${answer.data?.continue && html`<p class="quiet">and more than these ${items.length}</p>`}
  <//>`;
}

function Objects({ namespace, resources, context }) {
  const names = resources.map(({ resource }) => resource);
  const [wanted, choose] = useState("");
  const resource = names.includes(wanted) ? wanted
    : ["requests.cpu", "cpu", "pods"].find((name) => names.includes(name)) ?? names[0];
  if (!resource) return html`<p class="quiet">Nothing counts here.</p>`;
  return html`<div class="tools"><label>By <select value=${resource} onChange=${(event) => choose(event.target.value)}>
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select></label></div>
    <${Parts} key=${resource} namespace=${namespace} resource=${resource} context=${context} label=${`Objects by ${resource}`} />`;
}

export function Namespace({ context }) {
  const { route, moment: when, version } = context;
  const namespace = route.target;
  const answer = useAnswer([of(namespace, "usage"), when], version);
  const denials = useDenials(of(namespace, "denials"), context);
  const [explained, explain] = useState(null);
  const [chosen, choose] = useState(null);
  const room = answer.data?.room ?? {};
  const quotas = (answer.data?.quotas ?? []).map((quota) =>
    ({ ...quota, resources: quota.resources.map((figure) => withRoom(figure, room)) }));
  const limits = quotas.flatMap((quota) => quota.resources.map((figure) => ({ quota: quota.name, figure })));
  const [fullest] = [...limits].sort((a, b) => byShare(a.figure, b.figure));
  const plotted = chosen && (!chosen[1] || limits.some(({ quota, figure }) => quota === chosen[0] && figure.resource === chosen[1]))
    ? chosen : fullest && [fullest.quota, fullest.figure.resource];
  const limited = new Set([...Object.keys(room), ...limits.map(({ figure }) => figure.resource)]);
  const sums = answer.data?.resources ?? [];
  const unlimited = sums.filter(({ resource }) => !limited.has(resource));
  const least = leastBytes(limits.map(({ figure }) => figure));
  useEffect(() => { choose(null); explain(null); }, [namespace]);
  const plot = (limit) => {
    choose(limit);
    document.getElementById("history")?.scrollIntoView({ block: "center" });
  };
  const isUnknown = answer.data && !answer.stale && !limited.size && !sums.length && denials.answer.data && !denials.items.length;
  if (answer.error?.status === 403 || isUnknown) {
    return html`<main id="main"><h1>${namespace}</h1><div class="card">${isUnknown ? html`<${UnknownNamespace} context=${context} />`
      : html`<${Forbidden} error=${answer.error} context=${context} />`}</div></main>`;
  }
  return html`<main id="main"><header class="title"><h1>${namespace}</h1>
    <p class="tools"><a href=${address("why", "", { ...moment(route.query), ns: namespace })}>Would it fit?</a>
      <a href=${address("entries", "", { ...moment(route.query), namespace })}>Entries</a></p></header>
    <div class="cards">
      <section class="card" aria-label="What needs attention"><${State} answer=${answer}>
        ${answer.data && html`<${Attention} usage=${answer.data} denials=${denials} least=${least} />`}<//></section>
      <${Section} title="Quotas" id="quotas">
        <${State} answer=${answer} nothing=${answer.data && !quotas.length && "No quota limits anything here."}>
          <${Quotas} namespace=${namespace} quotas=${quotas} least=${least} explain=${explain} plot=${plot} />
        <//>
        ${unlimited.length > 0 && html`<details><summary>Sums that no quota limits: ${unlimited.length}</summary>
          <${Table} label="Sums without a limit" kind="limits" columns=${["Resource", ">Used", ">Reserved"]}>
            ${unlimited.map((sum) => html`<tr key=${sum.resource}><th scope="row">${sum.resource}</th>
              <td class="right"><${Figure} figure=${sum} of=${sum.used} name="used" explain=${(figure) => explain({ figure })} /></td>
              <td class="right"><${Figure} figure=${sum} of=${sum.reserved} name="reserved" explain=${(figure) => explain({ figure })} /></td></tr>`)}
          <//></details>`}
      <//>
      <${Counting} namespace=${namespace} context=${context} />
      ${plotted && html`<${Section} title="History" id="history">
        <${History} path=${of(namespace, "usage/history")} name=${namespace} quotas=${quotas} chosen=${plotted} choose=${choose} context=${context} /><//>`}
      <div class="columns"><div>
        <${Section} title="Objects by workload" id="objects" folds>
          <${Objects} namespace=${namespace} resources=${sums} context=${context} /><//>
        <${Section} title="Reservations" id="reservations" folds><${Reservations} namespace=${namespace} context=${context} /><//>
      </div><div>
        <${Section} title="Denials" id="denials" folds><${Denials} denials=${denials} /><//>
        <${Section} title="Last day" id="changes" folds>
          <${Changes} context=${context} hours=${24} namespace=${namespace} /><//>
      </div></div>
    </div>
    ${explained && html`<${Explanation} namespace=${namespace} quota=${explained.quota} figure=${explained.figure}
      context=${context} close=${() => explain(null)} />`}
  </main>`;
}
