import type { LaunchOptions } from "playwright";

export const chromiumFlags: string[];
export const chromiumOptions: LaunchOptions & { executablePath: string };
export const firefoxOptions: LaunchOptions;
