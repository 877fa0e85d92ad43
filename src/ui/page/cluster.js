// The nodes of the cluster, by their own reports.

import { html } from "./vendor/htm-preact.js";
import { useAnswer } from "./api.js";
import { Section, State, Table, duration } from "./parts.js";

/** Poll interval in milliseconds: the loss of a leader and the lag of a replica cause no entries. */
const POLL = 2000;

const BADGES = { leader: "good", follower: "", candidate: "warn", starting: "warn", unreachable: "bad" };

const age = (seconds) => seconds === undefined ? "not known" : seconds < 1 ? "< 1s" : duration(seconds * 1000);

/** How many messages of the log a node's replica lacks, compared with the node that has read furthest. */
const behind = (node, nodes) => Math.max(...nodes.map((other) => other.streamSequence)) - node.streamSequence;

function Node({ node, nodes, own }) {
  const silent = node.role === "unreachable";
  return html`<tr>
    <th scope="row">${node.name}${node.name === own && html` <span class="quiet">(this one)</span>`}</th>
    <td><span class="badge ${BADGES[node.role]}">${node.role}</span></td>
    <td>${silent ? "–" : node.leader ?? html`<span class="badge bad">none</span>`}</td>
    <td class="right number">${silent ? "–" : node.term}</td>
    <td class="right number">${silent ? "–" : behind(node, nodes)}</td>
    <td class="right number">${node.replica ? `#${node.replica.sequence}` : "–"}</td>
    <td class="right number">${silent ? "–" : age(node.replica?.ageSeconds)}</td>
    <td class="detail">${node.problem}</td></tr>`;
}

export function Cluster({ now }) {
  const answer = useAnswer(["v1/cluster", {}], Math.floor(now / POLL));
  const { node: own, nodes = [], ledger } = answer.data ?? {};
  const leader = nodes.find((node) => node.role === "leader");
  return html`<${Section} title="Cluster" id="cluster"
      aside=${answer.data && (leader ? html`<span class="badge good">${leader.name} leads</span>`
        : html`<span class="badge bad">no leader: nothing is granted</span>`)}>
    <${State} answer=${answer}>
      <${Table} label="The nodes of the cluster"
          columns=${["Node", "Role", "Leader", ">Term", ">Messages behind", ">Replica at", ">Age", "Problem"]}>
        ${nodes.map((node) => html`<${Node} key=${node.name} node=${node} nodes=${nodes} own=${own} />`)}
      <//>
      <p class="quiet">Ledger ${ledger ?? "not begun"}. The age of a replica is how long ago it was last known to hold all of
        the log.</p>
    <//>
  <//>`;
}
