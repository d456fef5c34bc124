// Environments in JavaScript that keep their own loop, attached to a learner of seed_rl over a WebSocket.
//
//   const learner = await Learner.connect("ws://localhost:8080");
//   let action = await learner.reset(observation);
//   action = await learner.step(observation, reward, terminated, truncated);  // null at an episode's end
//
// One file, for browsers and Node.js 22 or later. It follows protos/inference.proto, as version 4 has it.

const PROTOCOL_VERSION = 4;
const [FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS] = [200, 5000];
// Statuses after which connecting again unchanged is useless.
const REFUSALS = ["INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED"];
// The wire is little-endian, as the memory is wherever there are browsers.
const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array,
};

export class TrainingEnded extends Error {}
export class Refused extends Error {} // The message says what to change.
export class LearnerGone extends Error {} // Or all of its tasks are taken.

/** An environment of this program, attached to a learner. */
export class Learner {
  #open; #patienceMs; #link = null;
  #processId = crypto.getRandomValues(new BigUint64Array(1));
  #welcome = { task: -1 }; #applied = 0; // Actions, since it has had this task.
  #isPlaying = false; #reward = 0; // The last of an episode that terminated comes with the next observation.
  #record = null; #return = 0; #agentSteps = 0; #episodes = [];

  /** Joins the learner at ws://HOST:PORT or wss://HOST:PORT; `WebSocket` is used in place of the global class. */
  static async connect(url, { token = null, WebSocket = globalThis.WebSocket, patienceMs = 300_000 } = {}) {
    const encoded = btoa(token ?? "").replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const protocols = token === null ? ["seed_rl"] : ["seed_rl", `token.${encoded}`];
    const learner = new Learner();
    [learner.#open, learner.#patienceMs] = [() => new Link(new WebSocket(url, protocols)), patienceMs];
    await learner.#join();
    return learner;
  }

  /** Begins an episode; returns the action in response to its first observation. */
  async reset(observation) {
    const record = recordOf(this.#welcome.observation, observation, this.#reward, true, false);
    if (this.#isPlaying) {
      // An episode that goes on is cut off: its last observation comes again, as the end, and is not reported.
      this.#record.set([0, 0, 0, 0, false, true]);
      await this.#ask(this.#record);
      this.#return = this.#agentSteps = 0;
    }
    [this.#isPlaying, this.#reward] = [true, 0];
    return this.#ask(record);
  }

  /** Hands over the results of an action; returns the next one, or null at the end of an episode. */
  async step(observation, reward, terminated, truncated) {
    if (!this.#isPlaying) throw new Error("No episode has begun; call reset() with its first observation.");
    const record = recordOf(this.#welcome.observation, observation, reward, false, truncated);
    this.#return += reward;
    this.#agentSteps += 1;
    if (!terminated && !truncated) return this.#ask(record);
    this.#episodes = [encode([2, Float32Array.of(this.#return)], [3, this.#agentSteps])];
    this.#return = this.#agentSteps = 0;
    this.#isPlaying = false;
    if (terminated) this.#reward = reward;
    else await this.#ask(record);
    return null;
  }

  /** Leaves the learner. */
  close() {
    this.#link?.socket.close();
  }

  /** Sends the newest step, and waits for the action; sends it again to the next learner if this one is lost. */
  async #ask(record) {
    let episodes = this.#episodes.map((episode) => [3, episode]);
    [this.#record, this.#episodes] = [record, []];
    for (;;) {
      try {
        const step = encode([1, Uint32Array.of(0)], [2, record], ...episodes);
        const [answer] = decode(await this.#link.ask(encode([3, step])))(2);
        this.#applied += 1;
        const [bytes] = decode(answer)(2);
        const action = [...new ARRAYS[this.#welcome.action.dtype](Uint8Array.from(bytes).buffer)];
        return this.#welcome.action.isNumber ? action[0] : action;
      } catch (error) {
        if (!(error instanceof LearnerGone)) throw error;
        await this.#join();
        if (this.#applied === 0) record.set([0, 0, 0, 0, true, false]); // Others have played here since: begin anew.
        episodes = [];
      }
    }
  }

  async #join() {
    const begin = Date.now();
    for (let backoff = FIRST_BACKOFF_MS; ; backoff = Math.min(2 * backoff, LONGEST_BACKOFF_MS)) {
      try {
        this.close();
        this.#link = this.#open();
        await this.#link.opened;
        const join = encode([1, PROTOCOL_VERSION], [2, this.#processId], [3, 1], [4, 1], [5, this.#welcome.task]);
        const welcome = welcomeOf(await this.#link.ask(encode([1, join])));
        if (welcome.task !== this.#welcome.task || welcome.mustReset) this.#applied = 0;
        this.#welcome = welcome;
        return this.#link.socket.send(encode([2, encode([1, Uint8Array.from(varint(this.#applied))])]));
      } catch (error) {
        if (!(error instanceof LearnerGone) || Date.now() - begin > this.#patienceMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, backoff * (0.7 + 0.6 * Math.random())));
    }
  }
}

/** A WebSocket, and what waits for it: its opening, or the answer to a message. */
class Link {
  #waiting; #error = null;

  constructor(socket) {
    let status = null;
    this.socket = socket;
    this.opened = this.#next();
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.#waiting.resolve();
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") status = JSON.parse(data);
      else this.#waiting.resolve(new Uint8Array(data));
    };
    socket.onclose = () => this.#waiting.reject((this.#error = errorOf(status)));
    socket.onerror = () => {}; // `onclose` follows.
  }

  ask(message) {
    if (this.#error) throw this.#error;
    this.socket.send(message);
    return this.#next();
  }

  #next() {
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
  }
}

function errorOf(status) {
  if (status?.code === "OK") return new TrainingEnded("Training is complete.");
  if (REFUSALS.includes(status?.code)) return new Refused(status.message);
  return new LearnerGone(status?.message ?? "The learner cannot be reached.");
}

const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Copies an observation to a step's bytes: reward, done, truncated, and the observation's arrays. */
function recordOf(specs, observation, reward, done, truncated) {
  const arrays = specs.map(({ name, dtype, size, isPacked }) => {
    const entry = name === "" ? observation : name.split("/").reduce((found, key) => found[key], observation);
    const values = ArrayBuffer.isView(entry) ? entry : [entry].flat(Infinity);
    if (values.length !== size) throw new Error(`The observation ${name} has ${values.length} numbers, not ${size}.`);
    if (!isPacked) return bytesOf(ARRAYS[dtype].from(values));
    const packed = new Uint8Array(Math.ceil(size / 8));
    values.forEach((value, i) => (packed[i >> 3] |= value ? 128 >> (i & 7) : 0));
    return packed;
  });
  return joined(bytesOf(Float32Array.of(reward)), [done, truncated], ...arrays);
}

// Protocol buffers. A field is [number, value]: numbers are varints, Uint8Arrays bytes, and other arrays of fixed size.

function encode(...fields) {
  return joined(...fields.flatMap(([field, value]) => {
    if (typeof value === "number") return [varint(8 * field), varint(value)];
    if (value instanceof Uint8Array) return [varint(8 * field + 2), varint(value.length), value];
    return [varint(8 * field + (value.BYTES_PER_ELEMENT === 8 ? 1 : 5)), bytesOf(value)];
  }));
}

function varint(value) {
  const rest = BigInt.asUintN(64, BigInt(value));
  return rest < 128n ? [Number(rest)] : [Number(rest & 127n) | 128, ...varint(rest >> 7n)];
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((offset, part) => {
    whole.set(part, offset);
    return offset + part.length;
  }, 0);
  return whole;
}

/** Takes a varint from the front of an array. */
function taken(bytes) {
  const byte = bytes.shift();
  return byte < 128 ? byte : byte - 128 + 128 * taken(bytes);
}

/** Gives a function from a field's number to its values, which are arrays of bytes where they are no varints. */
function decode(message) {
  const [rest, fields] = [[...message], {}];
  while (rest.length) {
    const key = taken(rest);
    const value = key & 7 ? rest.splice(0, { 1: 8, 5: 4 }[key & 7] ?? taken(rest)) : taken(rest);
    (fields[key >> 3] ??= []).push(value);
  }
  return (field) => fields[field] ?? [];
}

function welcomeOf(message) {
  const welcome = decode(decode(message)(1)[0]);
  const [[task = 0], [mustReset = 0], observation, [action]] = [2, 3, 7, 8].map(welcome);
  return { task, mustReset, observation: observation.map(specOf), action: specOf(action) };
}

function specOf(message) {
  const [[name = []], [dtype], [shape = []], [bits = []]] = [1, 2, 3, 6].map(decode(message));
  const text = (bytes) => new TextDecoder().decode(Uint8Array.from(bytes));
  const [isPacked, isNumber] = [bits.length > 0, shape.length === 0];
  let size = 1;
  for (const packed = isPacked ? bits : shape; packed.length; ) size *= taken(packed);
  return { name: text(name), dtype: text(dtype), size, isPacked, isNumber };
}
