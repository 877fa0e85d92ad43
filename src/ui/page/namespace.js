// One namespace: its quotas and their history, its reservations, objects and denials.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { ask, of, pages, useAnswer } from "./api.js";
import { Changes } from "./entries.js";
import { Explanation, Parts } from "./explain.js";
import { Counting } from "./groups.js";
import { History } from "./history.js";
import { Amount, Bar, Countdown, Section, State, Table, Time, level, useClock } from "./parts.js";
import { amounts, number, percent, share, withRoom } from "./quantity.js";
import { address, moment } from "./route.js";

/** A number that opens its explanation. */
const Figure = ({ figure, of: text, name, explain }) => html`
  <button type="button" class="link" onClick=${() => explain(figure)} aria-label=${`${name} ${text} of ${figure.resource}: what makes it`}>
    <${Amount} of=${text} resource=${figure.resource} /></button>`;

/** Opens the newest entry that set a quota, up to the displayed moment. */
async function openQuotaEntry(namespace, quota, context) {
  let answer;
  for (let requests = 0; requests < 20; requests += 1) {
    answer = await ask("v1/entries", {
      query: { order: "desc", namespace, ...(answer ? { continue: answer.continue } : { from: context.sequence }) },
    });
    const found = answer.items.find(({ event }) => event.type === "QuotaSet" && event.name === quota);
    if (found) {
      location.hash = address("entries", "", { ...context.moment, namespace, from: found.sequence, open: found.sequence });
      return;
    }
    if (!answer.continue) break;
  }
  location.hash = address("entries", "", { ...context.moment, namespace });
}

/** The severity of the amount that is left. */
const tight = (figure) => number(figure.room) < 0 ? "over" : number(figure.room) === 0 && number(figure.hard) > 0 ? "full" : "";

/** The limit that binds. */
const named = ({ kind, name }) => `${kind === "ClusterResourceQuota" ? "group" : "quota"} ${name}`;

/** What groups leave, where they leave less than the quotas. */
function ByGroups({ room: all }) {
  const bound = Object.entries(all).filter(([, { boundBy }]) => boundBy.kind === "ClusterResourceQuota");
  if (!bound.length) return null;
  const figures = bound.map(([resource, { available, boundBy }]) => ({ resource, available, ...boundBy }));
  figures.sort((a, b) => share(b) - share(a));
  return html`<div class="quota"><h3>Groups that leave least</h3>
    <${Table} label="Limits of groups that leave least" columns=${["Resource", "-Bar", ">Taken", ">Hard", ">Available", "Group"]}>
      ${figures.map((figure) => html`<tr key=${figure.resource}>
        <th scope="row">${figure.resource}</th>
        <td class="bars">${figure.used !== undefined && html`<${Bar} figure=${figure} />`}</td>
        <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
        <td class="right"><${Amount} of=${figure.hard} resource=${figure.resource} /></td>
        <td class="right share ${tight({ ...figure, room: figure.available })}"><${Amount} of=${figure.available} resource=${figure.resource} /></td>
        <td>${figure.name}</td>
      </tr>`)}
    <//></div>`;
}

function Quota({ namespace, quota, context, explain, plot }) {
  const figures = [...quota.resources].sort((a, b) => share(b) - share(a));
  return html`<div class="quota"><h3>${quota.name}</h3>
    <${Table} label=${`Limits of ${quota.name}`} columns=${["Resource", "-Bar", ">Taken", ">Used", ">Reserved", ">Hard", ">Available", "-Plot"]}>
      ${figures.map((figure) => html`<tr key=${figure.resource}>
        <th scope="row">${figure.resource}</th>
        <td class="bars"><${Bar} figure=${figure} /></td>
        <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
        <td class="right">${figure.used === undefined ? "–" : html`<${Figure} figure=${figure} of=${figure.used} name="used" explain=${explain} />`}</td>
        <td class="right"><${Figure} figure=${figure} of=${figure.reserved} name="reserved" explain=${explain} /></td>
        <td class="right"><button type="button" class="link" onClick=${() => openQuotaEntry(namespace, quota.name, context)}
          aria-label=${`hard ${figure.hard} of ${figure.resource}: the entry that set it`}><${Amount} of=${figure.hard} resource=${figure.resource} /></button></td>
        <td class="right share ${tight(figure)}"><${Amount} of=${figure.room} resource=${figure.resource} />
          ${figure.boundBy && html` <span class="quiet">by ${named(figure.boundBy)}</span>`}</td>
        <td><button type="button" class="link" onClick=${() => plot([quota.name, figure.resource])} aria-label=${`plot ${figure.resource}`}>plot</button></td>
      </tr>`)}
    <//></div>`;
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
        <td>${amounts(reserved)}</td>
        <td class="right"><${Countdown} until=${expirationTime} now=${now} /></td>
        <td><${Time} of=${createdTime} date=${false} /></td></tr>`)}
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

function Denials({ namespace, context }) {
  const { version, until } = context;
  const answer = useAnswer([of(namespace, "denials"), { limit: 200 }], version);
  const items = (answer.data?.items ?? []).filter(({ time }) => !until || new Date(time) <= new Date(until)).slice(0, 30);
  return html`<${State} answer=${answer} nothing=${answer.data && !items.length && "None is remembered."}>
    <ul class="denials">${items.map((denial) => html`<li key=${denial.id}>
      <p><${Time} of=${denial.time} /> <b>${denial.object.resource}/${denial.object.name || denial.object.uid}</b>
        <span class="quiet"> by ${denial.actor.user ?? denial.actor.principal}</span>
        <span class="badge bad">${denial.reason}</span>
        ${denial.fitsWhenEmpty === false && html`<span class="badge warn">would not fit if all else were gone</span>`}</p>
      <p class="detail">${denial.detail}</p>
      ${denial.retryAfter && html`<p class="quiet">Expiring reservations alone make room by <${Time} of=${denial.retryAfter} />.</p>`}
    </li>`)}</ul>
  <//>`;
}

export function Namespace({ context }) {
  const { route, moment: when, version } = context;
  const namespace = route.target;
  const answer = useAnswer([of(namespace, "usage"), when], version);
  const [explained, explain] = useState(null);
  const [chosen, choose] = useState(null);
  const room = answer.data?.room ?? {};
  const quotas = (answer.data?.quotas ?? []).map((quota) =>
    ({ ...quota, resources: quota.resources.map((figure) => withRoom(figure, room)) }));
  const limits = quotas.flatMap((quota) => quota.resources.map((figure) => ({ quota: quota.name, figure })));
  const fullest = limits.reduce((best, next) => !best || share(next.figure) > share(best.figure) ? next : best, null);
  const plotted = chosen && limits.some(({ quota, figure }) => quota === chosen[0] && figure.resource === chosen[1])
    ? chosen : fullest && [fullest.quota, fullest.figure.resource];
  const limited = new Set([...Object.keys(room), ...limits.map(({ figure }) => figure.resource)]);
  const sums = answer.data?.resources ?? [];
  const unlimited = sums.filter(({ resource }) => !limited.has(resource));
  useEffect(() => { choose(null); explain(null); }, [namespace]);
  const plot = (limit) => {
    choose(limit);
    document.getElementById("history")?.scrollIntoView({ block: "center" });
  };
  return html`<main id="main"><h1>${namespace}</h1>
    <p class="tools"><a href=${address("why", "", { ...moment(route.query), ns: namespace })}>Would it fit?</a>
      <a href=${address("entries", "", { ...moment(route.query), namespace })}>Entries</a></p>
    <div class="cards">
      <${Section} title="Quotas" id="quotas" wide>
        <${State} answer=${answer} nothing=${answer.data && !quotas.length && !Object.keys(room).length && "No quota limits anything here."}>
          <${ByGroups} room=${room} />
          ${quotas.map((quota) => html`<${Quota} key=${quota.name} namespace=${namespace} quota=${quota} context=${context}
            plot=${plot} explain=${(figure) => explain({ quota: quota.name, figure })} />`)}
        <//>
        ${unlimited.length > 0 && html`<details><summary>Sums that no quota limits: ${unlimited.length}</summary>
          <${Table} label="Sums without a limit" columns=${["Resource", ">Used", ">Reserved"]}>
            ${unlimited.map((sum) => html`<tr key=${sum.resource}><th scope="row">${sum.resource}</th>
              <td class="right"><${Figure} figure=${sum} of=${sum.used} name="used" explain=${(figure) => explain({ figure })} /></td>
              <td class="right"><${Figure} figure=${sum} of=${sum.reserved} name="reserved" explain=${(figure) => explain({ figure })} /></td></tr>`)}
          <//></details>`}
      <//>
      <${Counting} namespace=${namespace} context=${context} />
      ${plotted && html`<${Section} title="History" id="history" wide>
        <${History} namespace=${namespace} quotas=${quotas} chosen=${plotted} choose=${choose} context=${context} /><//>`}
      <${Section} title="Reservations" id="reservations"><${Reservations} namespace=${namespace} context=${context} /><//>
      <${Section} title="Objects by size" id="objects">
        <${Objects} namespace=${namespace} resources=${sums} context=${context} /><//>
      <${Section} title="Denials" id="denials"><${Denials} namespace=${namespace} context=${context} /><//>
      <${Section} title="Last day" id="changes">
        <${Changes} context=${context} hours=${24} namespace=${namespace} /><//>
    </div>
    ${explained && html`<${Explanation} namespace=${namespace} quota=${explained.quota} figure=${explained.figure}
      context=${context} close=${() => explain(null)} />`}
  </main>`;
}
