// Groups: limits over many namespaces.

import { html, useState } from "./vendor/htm-preact.js";
import { pages, useAnswer } from "./api.js";
import { Explanation } from "./explain.js";
import { History } from "./history.js";
import { UnknownGroup } from "./missing.js";
import { Amount, Bar, Figure, NamespaceLink, Section, State, Table, level } from "./parts.js";
import { leastBytes, number, percent, share, taken } from "./quantity.js";
import { address, moment } from "./route.js";

/** Most groups in the overview. */
const SHOWN = 100;

export const GroupLink = ({ name, route }) => html`<a href=${address("group", name, moment(route.query))}>${name}</a>`;

/** The limits of a group's status, the fullest first. */
function figures({ hard, used, reserved, guaranteedToOthers }) {
  const limits = Object.entries(hard).map(([resource, amount]) => ({
    resource, hard: amount, used: used[resource] ?? "0", reserved: reserved[resource] ?? "0",
    guaranteedToOthers: guaranteedToOthers?.[resource] ?? "0",
  }));
  return limits.sort((a, b) => share(b) - share(a));
}

/** Whether anything of these limits is guaranteed to others. */
const isForOthers = (limits) => limits.some(({ guaranteedToOthers }) => number(guaranteedToOthers) > 0);

function Row({ group, route, least }) {
  const [fullest] = group.each ? [] : figures(group.status);
  return html`<tr>
    <th scope="row"><${GroupLink} name=${group.name} route=${route} /></th>
    <td class="right number ${fullest ? "share " + level(share(fullest)) : ""}">${fullest && percent(share(fullest))}</td>
    <td class="bars">${fullest && html`<${Bar} figure=${fullest} />`}</td>
    <td>${fullest ? fullest.resource : html`<span class="quiet">${group.each ? "each namespace alone" : "no limit"}</span>`}</td>
    <td class="right">${fullest && html`<${Amount} of=${String(taken(fullest))} resource=${fullest.resource} least=${least} /> / <${Amount}
      of=${fullest.hard} resource=${fullest.resource} least=${least} />`}</td>
    <td class="right number">${group.status.members}</td>
    <td>${group.parent && html`<${GroupLink} name=${group.parent} route=${route} />`}</td>
  </tr>`;
}

/** The present groups, the fullest first. */
export function Groups({ context }) {
  const { version, route } = context;
  const work = (path, { query, signal }) => pages(path, { query, signal }, SHOWN);
  const answer = useAnswer(["v1/groups", {}], version, work);
  const fullest = ({ each, status }) => (each ? [] : figures(status)).slice(0, 1);
  const full = (group) => fullest(group).map(share)[0] ?? -1;
  const groups = [...(answer.data?.items ?? [])].sort((a, b) => full(b) - full(a));
  const least = leastBytes(groups.flatMap(fullest));
  return html`<${State} answer=${answer} nothing=${answer.data && !groups.length && "No group limits several namespaces together."}>
    <${Table} label="Groups by fullness" kind="groups" columns=${["Group", ">Taken", "-Bar", "Fullest limit", ">Taken / hard", ">Namespaces", "Part of"]}>
      ${groups.map((group) => html`<${Row} key=${group.name} group=${group} route=${route} least=${least} />`)}
    <//>
    ${answer.data?.continue && html`<p class="quiet">and more than these ${groups.length}</p>`}
  <//>`;
}

/** The groups that count a namespace at present; nothing if there are none. */
export function Counting({ namespace, context }) {
  const { version, route, until } = context;
  const [explained, explain] = useState(null);
  const path = `apis/quota.openshift.io/v1/namespaces/${encodeURIComponent(namespace)}/appliedclusterresourcequotas`;
  const answer = useAnswer(until ? null : [path, {}], version);
  const groups = (answer.data?.items ?? []).flatMap(({ metadata, status }) => {
    const own = status.namespaces?.find((member) => member.namespace === namespace)?.status;
    const each = metadata.annotations?.["quota-ledger.io/each"] === "true";
    if (each && !own) return [];
    return { name: metadata.name, own, limits: figures((each && own) || status.total) };
  });
  if (!groups.length) return null;
  const here = (own, { resource }) => String(number(own?.used?.[resource]) + number(own?.reserved?.[resource]));
  // What is taken here may be little of a large limit: its unit counts, not its digits.
  const unit = (bytes) => String(bytes > 0 ? 1024 ** Math.max(0, Math.floor(Math.log(bytes * 4) / Math.log(1024))) : 0);
  const least = leastBytes(groups.flatMap(({ own, limits }) => limits.flatMap((figure) => [figure, { ...figure, hard: unit(Number(here(own, figure))) }])));
  const others = isForOthers(groups.flatMap(({ limits }) => limits));
  const columns = ["Resource", "-Bar", ">Taken", ">Used", ">Reserved", ...(others ? [">For others"] : []), ">Hard", ">Of it here"];
  const amount = ({ resource }, of) => html`<td class="right"><${Amount} of=${of ?? "0"} resource=${resource} least=${least} /></td>`;
  return html`<${Section} title="Groups that count it" id="groups">
    <${Table} label="Limits of groups" kind="limits" columns=${columns}>
      ${groups.map(({ name, own, limits }) => [
        html`<tr key=${name} class="of"><th colspan=${columns.length} scope="rowgroup"><${GroupLink} name=${name} route=${route} /></th></tr>`,
        limits.map((figure) => html`<tr key=${name + "/" + figure.resource}>
          <th scope="row">${figure.resource}</th>
          <td class="bars"><${Bar} figure=${figure} /></td>
          <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
          ${amount(figure, figure.used)}${amount(figure, figure.reserved)}${others && amount(figure, figure.guaranteedToOthers)}
          ${amount(figure, figure.hard)}
          <td class="right"><${Figure} figure=${{ ...figure, hard: undefined, kind: "ClusterResourceQuota", ...takenHere(own, figure) }}
            of=${here(own, figure)} name=${`used here, in ${name},`}
            least=${least} explain=${(figure) => explain({ quota: name, figure })} /></td>
        </tr>`),
      ])}
    <//>
    ${explained && html`<${Explanation} namespace=${namespace} quota=${explained.quota} figure=${explained.figure}
      context=${context} close=${() => explain(null)} />`}
  <//>`;
}

/** What a namespace takes of a resource of a group. */
const takenHere = (own, { resource }) => ({ used: own?.used?.[resource] ?? "0", reserved: own?.reserved?.[resource] ?? "0" });

const said = (selector) => {
  const { matchLabels = {}, matchExpressions = [] } = selector.labels ?? {};
  const labels = [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(({ key, operator, values = [] }) => [key, operator, values.join(", ")].filter(Boolean).join(" ")),
  ];
  const annotations = Object.entries(selector.annotations ?? {}).map(([key, value]) => `annotation ${key}=${value}`);
  return [...labels, ...annotations].join(", ") || "those of its children";
};

/** The properties of a group beside its limits. */
function About({ group, route }) {
  const { status } = group;
  const links = (names) => names.map((name, index) => html`${index > 0 && ", "}<${GroupLink} name=${name} route=${route} />`);
  return html`<${Section} title="About" id="about">
    <dl>
      <dt>Namespaces</dt><dd>${said(group.selector)}</dd>
      ${group.parent && html`<dt>Part of</dt><dd>${links([group.parent])}</dd>`}
      ${status.children && html`<dt>Children</dt><dd>${links(status.children)}</dd>`}
      <dt>Enforcement</dt><dd>${group.enforcement}${group.each && ", for each namespace alone"}</dd>
      ${status.overrideUntil && html`<dt>Override</dt><dd>until ${status.overrideUntil}</dd>`}
      ${(status.conditions ?? []).map(({ type, message }) => html`<dt>${type}</dt><dd class="problem">${message}</dd>`)}
    </dl>
  <//>`;
}

/** One group: its limits, and each member's usage of them. */
export function Group({ context }) {
  const { moment: when, version, route, until } = context;
  const path = `v1/groups/${encodeURIComponent(route.target)}`;
  const answer = useAnswer([`${path}/usage`, when], version);
  // These numbers are available for the present only.
  const about = useAnswer(until ? null : [path, {}], version);
  const [chosen, choose] = useState(null);
  const [explained, explain] = useState(null);
  const limits = [...(answer.data?.resources ?? [])].sort((a, b) => share(b) - share(a));
  const least = leastBytes(limits);
  const members = answer.data?.namespaces ?? [];
  const others = isForOthers(limits);
  const columns = ["Resource", "-Bar", ">Taken", ">Used", ">Reserved", ...(others ? [">For others"] : []), ">Hard", ">Available"];
  const amount = (figure, of) => html`<td class="right"><${Amount} of=${of ?? "0"} resource=${figure.resource} least=${least} /></td>`;
  const opens = (figure, of, name) => html`<td class="right"><${Figure} figure=${figure} of=${of ?? "0"} name=${name} least=${least} explain=${explain} /></td>`;
  if (answer.error?.status === 404) {
    return html`<main id="main"><h1>${route.target}</h1><div class="card"><${UnknownGroup} context=${context} /></div></main>`;
  }
  return html`<main id="main"><h1>${route.target} <span class="quiet">group</span></h1><div class="cards">
    <${Section} title="Limits" id="limits">
      <${State} answer=${answer} nothing=${answer.data && !limits.length && "It limits nothing."}>
        <${Table} label=${`Limits of ${route.target}`} kind="limits" columns=${columns}>
          ${limits.map((figure) => html`<tr key=${figure.resource}>
            <th scope="row">${figure.resource}</th>
            <td class="bars">${about.data && !about.data.each && html`<${Bar} figure=${figure} />`}</td>
            <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
            ${opens(figure, figure.used, "used")}${opens(figure, figure.reserved, "reserved")}${others && amount(figure, figure.guaranteedToOthers)}
            ${opens(figure, figure.hard, "hard")}
            <td class="right ${number(figure.available) < 0 ? "over share" : ""}"><${Amount} of=${figure.available} resource=${figure.resource} least=${least} /></td>
          </tr>`)}
        <//>
      <//>
    <//>
    ${limits.length > 0 && html`<${Section} title="History" id="history">
      <${History} path=${`${path}/usage/history`} name=${route.target} quotas=${[{ name: "", resources: limits }]} group=${about.data && !about.data.each && route.target}
        chosen=${chosen ?? ["", limits[0].resource]} choose=${choose} context=${context} /><//>`}
    <div class="columns main-first"><div>
    <${Section} title="Namespaces" id="members" folds>
      <${State} answer=${answer} nothing=${answer.data && !members.length && "It counts nothing in any namespace."}>
        <${Table} label="Members" columns=${["Namespace", ...limits.map(({ resource }) => `>${resource}`)]}>
          ${members.map(({ namespace, used, reserved }) => html`<tr key=${namespace}>
            <th scope="row"><${NamespaceLink} name=${namespace} route=${route} /></th>
            ${limits.map(({ resource }) => html`<td class="right"><${Amount} of=${used[resource] ?? "0"} resource=${resource} least=${least} />
              ${number(reserved[resource]) > 0 && html` <span class="quiet">+ <${Amount} of=${reserved[resource]} resource=${resource} least=${least} /> reserved</span>`}</td>`)}
          </tr>`)}
        <//>
        ${answer.data?.namespacesOmitted && html`<p class="quiet">and ${answer.data.namespacesOmitted} more</p>`}
      <//>
    <//></div><div>
    ${about.data && html`<${About} group=${about.data} route=${route} />`}
    </div></div>
    ${explained && html`<${Explanation} group=${route.target} figure=${explained} context=${context} close=${() => explain(null)} />`}
  </div></main>`;
}
