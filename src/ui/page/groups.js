// Groups: limits over many namespaces.

import { html } from "./vendor/htm-preact.js";
import { pages, useAnswer } from "./api.js";
import { Amount, Bar, NamespaceLink, Section, State, Table, level } from "./parts.js";
import { number, percent, share } from "./quantity.js";
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

function Row({ group, route }) {
  const [fullest] = group.each ? [] : figures(group.status);
  return html`<tr>
    <th scope="row"><${GroupLink} name=${group.name} route=${route} /></th>
    <td class="right number ${fullest ? "share " + level(share(fullest)) : ""}">${fullest && percent(share(fullest))}</td>
    <td class="bars">${fullest && html`<${Bar} figure=${fullest} />`}</td>
    <td>${fullest ? fullest.resource : html`<span class="quiet">${group.each ? "each namespace alone" : "no limit"}</span>`}</td>
    <td class="right number">${group.status.members}</td>
    <td>${group.parent && html`<${GroupLink} name=${group.parent} route=${route} />`}</td>
  </tr>`;
}

/** The present groups, the fullest first; nothing if there are none. */
export function Groups({ context }) {
  const { version, route, until } = context;
  const work = (path, { query, signal }) => pages(path, { query, signal }, SHOWN);
  const answer = useAnswer(until ? null : ["v1/groups", {}], version, work);
  const taken = ({ each, status }) => (each ? [] : figures(status)).slice(0, 1).map(share)[0] ?? -1;
  const groups = [...(answer.data?.items ?? [])].sort((a, b) => taken(b) - taken(a));
  if (!groups.length) return null;
  return html`<${Section} title="Groups" id="groups">
    <${Table} label="Groups by fullness" columns=${["Group", ">Taken", "-Bar", "Fullest limit", ">Namespaces", "Part of"]}>
      ${groups.map((group) => html`<${Row} key=${group.name} group=${group} route=${route} />`)}
    <//>
    ${answer.data.continue && html`<p class="quiet">and more than these ${groups.length}</p>`}
  <//>`;
}

/** The groups that count a namespace at present; nothing if there are none. */
export function Counting({ namespace, context }) {
  const { version, route, until } = context;
  const path = `apis/quota.openshift.io/v1/namespaces/${encodeURIComponent(namespace)}/appliedclusterresourcequotas`;
  const answer = useAnswer(until ? null : [path, {}], version);
  const limits = (answer.data?.items ?? []).flatMap(({ metadata, status }) => {
    const own = status.namespaces?.find((member) => member.namespace === namespace)?.status;
    const each = metadata.annotations?.["quota-ledger.io/each"] === "true";
    if (each && !own) return [];
    return figures((each && own) || status.total).map((figure) => ({ name: metadata.name, figure, own }));
  });
  if (!limits.length) return null;
  const columns = ["Group", "Resource", "-Bar", ">Taken", ">Used", ">Reserved", ">Guaranteed to others", ">Hard", ">Of it here"];
  const amount = ({ resource }, of) => html`<td class="right"><${Amount} of=${of ?? "0"} resource=${resource} /></td>`;
  return html`<${Section} title="Groups that count it" id="groups" wide>
    <${Table} label="Limits of groups" columns=${columns}>
      ${limits.map(({ name, figure, own }) => html`<tr key=${name + "/" + figure.resource}>
        <th scope="row"><${GroupLink} name=${name} route=${route} /></th><td>${figure.resource}</td>
        <td class="bars"><${Bar} figure=${figure} /></td>
        <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
        ${amount(figure, figure.used)}${amount(figure, figure.reserved)}${amount(figure, figure.guaranteedToOthers)}
        ${amount(figure, figure.hard)}
        ${amount(figure, String(number(own?.used?.[figure.resource] ?? "0") + number(own?.reserved?.[figure.resource] ?? "0")))}
      </tr>`)}
    <//>
  <//>`;
}

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
  const limits = [...(answer.data?.resources ?? [])].sort((a, b) => share(b) - share(a));
  const members = answer.data?.namespaces ?? [];
  const columns = ["Resource", "-Bar", ">Taken", ">Used", ">Reserved", ">Guaranteed to others", ">Hard", ">Available"];
  const amount = (figure, of) => html`<td class="right"><${Amount} of=${of ?? "0"} resource=${figure.resource} /></td>`;
  return html`<main id="main"><h1>${route.target}</h1><div class="cards">
    <${Section} title="Limits" id="limits" wide>
      <${State} answer=${answer} nothing=${answer.data && !limits.length && "It limits nothing."}>
        <${Table} label=${`Limits of ${route.target}`} columns=${columns}>
          ${limits.map((figure) => html`<tr key=${figure.resource}>
            <th scope="row">${figure.resource}</th>
            <td class="bars">${about.data && !about.data.each && html`<${Bar} figure=${figure} />`}</td>
            <td class="right number share ${level(share(figure))}">${percent(share(figure))}</td>
            ${amount(figure, figure.used)}${amount(figure, figure.reserved)}${amount(figure, figure.guaranteedToOthers)}
            ${amount(figure, figure.hard)}
            <td class="right ${number(figure.available) < 0 ? "over share" : ""}"><${Amount} of=${figure.available} resource=${figure.resource} /></td>
          </tr>`)}
        <//>
      <//>
    <//>
    <${Section} title="Namespaces" id="members">
      <${State} answer=${answer} nothing=${answer.data && !members.length && "It counts nothing in any namespace."}>
        <${Table} label="Members" columns=${["Namespace", ...limits.map(({ resource }) => `>${resource}`)]}>
          ${members.map(({ namespace, used, reserved }) => html`<tr key=${namespace}>
            <th scope="row"><${NamespaceLink} name=${namespace} route=${route} /></th>
            ${limits.map(({ resource }) => html`<td class="right"><${Amount} of=${used[resource] ?? "0"} resource=${resource} />
              ${number(reserved[resource]) > 0 && html` <span class="quiet">+ <${Amount} of=${reserved[resource]} resource=${resource} /> reserved</span>`}</td>`)}
          </tr>`)}
        <//>
        ${answer.data?.namespacesOmitted && html`<p class="quiet">and ${answer.data.namespacesOmitted} more</p>`}
      <//>
    <//>
    ${about.data && html`<${About} group=${about.data} route=${route} />`}
  </div></main>`;
}
