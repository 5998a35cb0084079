// What pages ask the server for. All numbers come from there: no formula is written twice.

export async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : posted(body));
  if (answer.headers.get("content-type") !== "application/json") throw new Error((await answer.text()).trim() || `error ${answer.status}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.line ?? `error ${answer.status}`);
  return found;
}

// Calls `take` with each line of a streamed answer; aborting the signal ends what the server computes for it.
export async function stream(path, body, signal, take) {
  const answer = await fetch(path, { ...posted(body), signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) if (line) take(JSON.parse(line));
  }
}

function posted(body) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
