// What the page asks of its server.

/** An answer of the server, or an Error with the sentence it sent and its status (0 where it cannot be reached). */
export async function api(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw failure("the server cannot be reached.", 0);
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  throw failure(value.error ?? `the server answered with status ${answer.status}.`, answer.status);
}

/** Start a search with these settings, on an image or about that of a past result; returns its id. */
export async function submit(wish, image = null) {
  const headers = { "Content-Type": image?.type || "application/octet-stream" };
  const { id } = await api(`/api/jobs?${new URLSearchParams(wish)}`, { method: "POST", body: image, headers });
  return id;
}

const failure = (message, status) => Object.assign(new Error(message), { status });
