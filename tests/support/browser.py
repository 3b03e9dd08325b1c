"""Drives a headless Chromium by the DevTools protocol over a pipe, for tests of pages."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ('chromium', 'chromium-browser', 'google-chrome')
SECONDS = 60  # most that one command may take


def find_browser():
    """Returns the path of the browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A browser with one page. `messages`: what the page wrote to the console, and its exceptions.
    `requests`: the addresses that it asked for."""
    def __init__(self, width=1280, height=900):
        self.folder = tempfile.TemporaryDirectory()
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        command = [
            find_browser(), '--headless', '--no-sandbox', '--disable-gpu',
            '--remote-debugging-pipe', '--no-first-run', f'--user-data-dir={self.folder.name}',
            f'--window-size={width},{height}', 'about:blank'
        ]
        # The protocol is spoken on the descriptors 3 and 4.
        words = ['bash', '-c', f'exec "$@" 3<&{to_browser} 4>&{from_browser}', 'bash', *command]
        self.process = subprocess.Popen(words, pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.count, self.session = b'', 0, None
        self.messages, self.requests, self.events = [], [], []
        target = next(one for one in self.call('Target.getTargets')['targetInfos']
                      if one['type'] == 'page')
        attached = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)
        self.session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder.name, ignore_errors=True)

    def call(self, method, **parameters):
        """Sends one command and returns its result."""
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b'\0')
        answer = self.receive(lambda one: one.get('id') == self.count)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def receive(self, wanted):
        """Returns the next message that is wanted, and notes the events before it."""
        end = time.monotonic() + SECONDS
        while True:
            while b'\0' in self.buffer:
                line, self.buffer = self.buffer.split(b'\0', 1)
                message = json.loads(line)
                self.note(message)
                if wanted(message):
                    return message
            if not select.select([self.read_end], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f'the browser did not answer within {SECONDS} s')
            piece = os.read(self.read_end, 1 << 16)
            if not piece:
                raise RuntimeError('the browser ended')
            self.buffer += piece

    def note(self, message):
        method, given = message.get('method'), message.get('params', {})
        if method == 'Runtime.consoleAPICalled':
            self.messages.append(f'{given["type"]}: {given["args"]}')
        elif method == 'Runtime.exceptionThrown':
            self.messages.append(f'exception: {given["exceptionDetails"]}')
        elif method == 'Log.entryAdded':
            self.messages.append(f'{given["entry"]["level"]}: {given["entry"]["text"]}')
        elif method == 'Network.requestWillBeSent':
            self.requests.append(given['request']['url'])

    def open(self, path):
        """Opens a file and waits for the load event."""
        self.messages, self.requests = [], []
        self.call('Page.navigate', url=Path(path).resolve().as_uri())
        self.receive(lambda one: one.get('method') == 'Page.loadEventFired')

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression, which may be a promise."""
        answer = self.call('Runtime.evaluate', expression=expression, awaitPromise=True,
                           returnByValue=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression[:200]}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def press(self, key):
        """Presses and releases a key such as ArrowRight."""
        for kind in ('keyDown', 'keyUp'):
            self.call(
                'Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode={
                    'ArrowLeft': 37,
                    'ArrowUp': 38,
                    'ArrowRight': 39,
                    'ArrowDown': 40,
                    'Tab': 9
                }[key])

    def resize(self, width, height=900):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def media(self, kind='', scheme='light'):
        """Emulates print (kind 'print') or a colour scheme."""
        self.call('Emulation.setEmulatedMedia', media=kind, features=[{
            'name': 'prefers-color-scheme',
            'value': scheme
        }])

    def screenshot(self, path):
        data = self.call('Page.captureScreenshot', captureBeyondViewport=True)['data']
        Path(path).write_bytes(base64.b64decode(data))

    def clip(self, path, selector, scale=1):
        """Writes a picture of one element."""
        box = self.evaluate(f'(() => {{ const b = document.querySelector({json.dumps(selector)})'
                            '.getBoundingClientRect(); return {x: b.x + scrollX, y: b.y + scrollY, '
                            'width: b.width, height: b.height}; })()')
        data = self.call('Page.captureScreenshot', captureBeyondViewport=True, clip={
            **box, 'scale': scale
        })['data']
        Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        data = self.call('Page.printToPDF', preferCSSPageSize=True, printBackground=True)['data']
        Path(path).write_bytes(base64.b64decode(data))
