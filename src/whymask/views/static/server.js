// Requests of the page to its server.
import { complain } from "./screen.js";

/** The JSON of a response; throws an Error with the server's message and the status (0 where it cannot be reached). */
export async function api(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw failure("the server cannot be reached.", 0);
  }
  const value = await response.json().catch(() => ({}));
  if (response.ok) return value;
  throw failure(value.error ?? `the server answered with status ${response.status}.`, response.status);
}

/**
 * Start a search with these settings, on an image or about that of a past result, and show it. Its button is disabled
 * meanwhile. Returns the id, or undefined where the search could not start.
 */
export async function submit(wish, button, image = null) {
  complain();
  button.disabled = true;
  try {
    const headers = { "Content-Type": image?.type || "application/octet-stream" };
    const { id } = await api(`/api/jobs?${new URLSearchParams(wish)}`, { method: "POST", body: image, headers });
    location.hash = id;
    return id;
  } catch (error) {
    complain("The search could not start", error);
    scrollTo({ top: 0 });
  } finally {
    button.disabled = false;
  }
}

const failure = (message, status) => Object.assign(new Error(message), { status });
