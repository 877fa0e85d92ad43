// The API of the daemon that served the page. The token is stored until the tab is closed.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const KEY = "quota-ledger-token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY),
};

/** A refusal of the API. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `the daemon answered ${status}`);
    this.status = status;
    this.problem = problem ?? {};
  }
}

const url = (path, query = {}) => {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  url.search = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""),
  );
  return url;
};

const headers = (more = {}) => token.get() ? { ...more, authorization: `Bearer ${token.get()}` } : more;

/** Sends a request; throws [Refused] unless the response is a success. */
export async function send(path, { query, signal, method, body, type } = {}) {
  let answer;
  try {
    answer = await fetch(url(path, query), {
      method, body, signal, headers: headers(type && { "content-type": type }), credentials: "omit", cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { detail: "the daemon does not answer" });
  }
  if (answer.ok) return answer;
  throw new Refused(answer.status, await answer.json().catch(() => null));
}

/** The JSON of the API's response. */
export const ask = async (path, options) => (await send(path, options)).json();

/** The path of a resource in a namespace. */
export const of = (namespace, rest) => `v1/namespaces/${encodeURIComponent(namespace)}/${rest}`;

/** Sends a request whenever `question` changes, and again when `version` does; an answer is kept until the next one
 *  arrives. One request is in flight at a time. Without a question no request is sent. */
export function useAnswer(question, version, work) {
  const [answer, set] = useState({});
  const current = useRef(null);
  const key = question && JSON.stringify(question);
  useEffect(() => {
    if (!key) return undefined;
    const control = new AbortController();
    const { signal } = control;
    let busy = false;
    let again = false;
    const run = () => {
      again = busy;
      if (busy) return;
      busy = true;
      const done = (result) => {
        busy = false;
        if (signal.aborted) return;
        set(result);
        if (again) run();
      };
      (work ?? ask)(question[0], { query: question[1], signal })
        .then((data) => done({ data }), (error) => done({ error }));
    };
    current.current = run;
    set(({ data }) => data ? { data, stale: true } : {});
    run();
    return () => {
      control.abort();
      current.current = null;
    };
  }, [key]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) current.current?.();
    first.current = false;
  }, [version]);
  return key ? answer : {};
}

/** Reads the pages of a list one after the other, until there are `count` items. */
export async function pages(path, { query, signal }, count) {
  const items = [];
  let answer;
  do {
    const page = { ...query, limit: Math.min(500, count - items.length), continue: answer?.continue };
    answer = await ask(path, { query: page, signal });
    items.push(...answer.items);
  } while (answer.continue && items.length < count);
  return { ...answer, items };
}

/** Receives entries as server-sent events, and calls `seen` with each. Ends with the connection. */
export async function watch(query, last, signal, opened, seen) {
  const answer = await fetch(url("v1/watch", query), {
    signal, headers: headers(last ? { "last-event-id": String(last) } : {}), credentials: "omit", cache: "no-store",
  });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => null));
  opened();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (data.length) seen(JSON.parse(data.join("\n")));
    }
  }
}
