// Starts the page: reads the data that Go put into it, and draws it.
import { render } from "preact";
import { App } from "./app";
import { parse, unpack } from "./read";
import "./style/base.css";
import "./style/parts.css";
import "./style/sections.css";
import "./style/media.css";

async function start(): Promise<void> {
  const root = document.getElementById("app");
  if (root === null) return;
  try {
    const model = parse(await unpack(document.getElementById("data")?.textContent ?? ""));
    document.title = `${model.name}: Windtunnel report`;
    render(<App model={model} />, root);
    root.setAttribute("data-ready", "");
  } catch (e) {
    const message = document.createElement("p");
    message.className = "fatal";
    message.textContent = `This report cannot be shown: ${e instanceof Error ? e.message : String(e)}`;
    root.replaceChildren(message);
  }
}

void start();
