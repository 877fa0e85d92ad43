// What a view says when it has nothing to show: what that means, and what to do next.

import { html } from "./vendor/htm-preact.js";
import { useAnswer } from "./api.js";
import { NamespaceLink } from "./parts.js";
import { address, moment } from "./route.js";

/** Opens a namespace by its name: for those who may not list all. */
const ByName = ({ route }) => {
  const open = (event) => {
    event.preventDefault();
    location.hash = address("ns", event.target.elements.namespace.value.trim(), moment(route.query));
  };
  return html`<form class="inline" onSubmit=${open}><input name="namespace" aria-label="Namespace" placeholder="Namespace" required
    autocapitalize="none" spellcheck="false" /><button>Open</button></form>`;
};

const home = (route, text) => html`<a href=${address("overview", "", moment(route.query))}>${text}</a>`;

/** The caller may not read what was asked for. */
export const Forbidden = ({ error, context }) => html`
  <p class="problem" role="alert">${error.message}.</p>
  <p class="quiet">You are ${context.caller.principal}, with ${context.caller.roles.join(", ") || "no role"}. Ask an administrator
    for the role read here, use another token, or open a namespace that you may read:</p>
  <${ByName} route=${context.route} />`;

/** There is no such view. */
export const UnknownView = ({ context: { route } }) => html`<main id="main"><h1>There is no view “${route.name}”</h1>
  <p>The address may be mistyped, or of another version of this page. ${home(route, "See the namespaces")}.</p></main>`;

/** There is no such group. */
export const UnknownGroup = ({ context: { route } }) => html`
  <p>No group has the name “${route.target}”. Groups are listed beside the namespaces: ${home(route, "see both")}.</p>`;

/** The ledger has nothing of a namespace. */
export function UnknownNamespace({ context }) {
  const { route, until } = context;
  const part = route.target.split("-")[0];
  const similar = useAnswer(["v1/usage", { search: part, limit: 5, ...context.moment }], context.version);
  const names = (similar.data?.items ?? []).map(({ namespace }) => namespace);
  return html`<p role="status">The ledger ${until ? "held nothing" : "holds nothing"} of a namespace “${route.target}”${until && " then"}:
      no quota limits it, no object counts in it, and nothing was denied there.</p>
    ${names.length > 0 && html`<p>Names like it: ${names.map((name, index) => html`${index > 0 && ", "}<${NamespaceLink}
      name=${name} route=${route} />`)}.</p>`}
    <p>${home(route, "See all namespaces")}${!until && html`, or set a
      quota: <code>quotactl apply -n ${route.target} -f quota.yaml</code>. This page shows it at once.`}</p>`;
}

/** The ledger is empty. */
export const EmptyLedger = ({ until }) => until ? html`<p class="quiet">The ledger held nothing then.</p>` : html`
  <p>The ledger holds nothing yet. What to do next:</p>
  <ol>
    <li>Set a limit: <code>quotactl apply -n NAMESPACE -f quota.yaml</code>, or with <code>kubectl</code> at this address.</li>
    <li>Let objects count: run <code>quota-bridge</code> beside a Kubernetes API, or send events: <code>quotactl push FILE</code>.</li>
    <li>Ask whether something fits: <a href=${address("why")}>Would it fit?</a></li>
  </ol>`;
