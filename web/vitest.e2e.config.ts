// Tests in a real browser: see e2e/browser.ts for which one.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["e2e/**/*.e2e.ts"], fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 },
});
