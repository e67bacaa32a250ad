import http from 'k6/http';
import { sleep } from 'k6';

const load = JSON.parse(open('./settings.json'));
const body = load.body ? open('./body', 'b') : null;

export const options = load.options;

export default function () {
  const url = load.urls[(__VU + __ITER) % load.urls.length];
  http.request(load.method, url, body, { headers: load.headers, timeout: load.timeout });
  if (load.think_s > 0) {
    sleep(load.think_s);
  }
}
