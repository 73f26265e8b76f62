import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import ts from "typescript";

test("the snippets of the README and of docs/calls.md compile", () => {
  const snippetsOf = (page: string) =>
    [...readFileSync(page, "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code!);
  const [readme, calls] = [snippetsOf("README.md"), snippetsOf("../../docs/calls.md")];
  assert.ok(readme.length > 8);
  assert.ok(calls.length > 1);
  const snippets = [...readme, ...calls];
  const { config } = ts.readConfigFile("tsconfig.json", (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, ".");
  const files = new Map(snippets.map((code, index) => [ts.sys.resolvePath(`snippet-${index + 1}.ts`), code]));
  const host = ts.createCompilerHost({ ...options, noUnusedLocals: false });
  const { fileExists, readFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  const program = ts.createProgram([...files.keys()], options, host);
  const wrong = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    return `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
  });
  assert.deepEqual(wrong, []);
});
