// How scripts start the browsers that install-browsers.sh provides.

/** Keeps Chromium from talking to anything but the page under test. */
export const chromiumFlags = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const chromiumOptions = {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  chromiumSandbox: false,
  args: chromiumFlags,
};

export const firefoxOptions = {
  // Playwright drives a stock Firefox over WebDriver BiDi under this channel.
  channel: "moz-firefox",
  executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
};
