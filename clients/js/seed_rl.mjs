// Environments in JavaScript that keep their own loop, attached to a learner of seed_rl over a WebSocket.
//
//   const learner = await Learner.connect("ws://localhost:8080");
//   let action = await learner.reset(observation);
//   action = await learner.step(observation, reward, terminated, truncated);  // null at an episode's end
//
// One file, for browsers and Node.js 22 or later. It follows protos/inference.proto, as version 4 has it.

const PROTOCOL_VERSION = 4;
const FIRST_BACKOFF_MS = 200;
const LONGEST_BACKOFF_MS = 5000;
// Statuses after which connecting again unchanged is useless.
const REFUSALS = ["INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED"];

/** Training is complete, so there are no more actions. */
export class TrainingEnded extends Error {}

/** The learner refuses this program; the message says what to change. */
export class Refused extends Error {}

// How arrays of a dtype are written and read, at an offset of a DataView: size in bytes, setter, getter.
const DTYPES = {
  bool: [1, "setUint8", "getUint8"],
  int8: [1, "setInt8", "getInt8"],
  uint8: [1, "setUint8", "getUint8"],
  int16: [2, "setInt16", "getInt16"],
  uint16: [2, "setUint16", "getUint16"],
  int32: [4, "setInt32", "getInt32"],
  uint32: [4, "setUint32", "getUint32"],
  float32: [4, "setFloat32", "getFloat32"],
  float64: [8, "setFloat64", "getFloat64"],
};

/** An environment of this program, attached to a learner. */
export class Learner {
  /**
   * Joins the learner at a URL, ws://HOST:PORT or wss://HOST:PORT.
   * `token` is the run's, and `WebSocket` a class to use in place of the global one.
   */
  static async connect(url, { token = null, WebSocket = globalThis.WebSocket, patienceMs = 300_000 } = {}) {
    const learner = new Learner(url, token, WebSocket, patienceMs);
    await learner.#join();
    return learner;
  }

  #url; #protocols; #WebSocket; #patienceMs;
  #socket = null; #inbox = []; #waiting = null; #end = null;
  #processId = crypto.getRandomValues(new Uint8Array(8));
  #task = -1; #spec = null; #applied = 0; #mustReset = false;
  #state = "ended"; // Or "playing", or "terminated", whose reward comes with the next first observation.
  #last = null; #observation = null; #reward = 0; #return = 0; #agentSteps = 0; #episodes = [];

  constructor(url, token, WebSocket, patienceMs) {
    this.#url = url;
    this.#WebSocket = WebSocket;
    this.#patienceMs = patienceMs;
    const encoded = token === null ? [] : [btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")];
    this.#protocols = ["seed_rl", ...encoded.map((text) => `token.${text}`)];
  }

  /** Begins an episode; returns the action in response to its first observation. */
  async reset(observation) {
    if (this.#state === "playing") {
      // An episode that goes on is cut off: its last observation comes again, as the end, and is not reported.
      this.#write(this.#observation, 0, false, true);
      await this.#ask();
      this.#return = this.#agentSteps = 0;
    }
    const reward = this.#state === "terminated" ? this.#reward : 0;
    this.#write(observation, reward, true, false);
    this.#state = "playing";
    const episodes = this.#episodes;
    this.#episodes = [];
    return this.#ask(episodes);
  }

  /** Hands over the results of an action; returns the next one, or null at the end of an episode. */
  async step(observation, reward, terminated, truncated) {
    if (this.#state !== "playing") throw new Error("No episode has begun; call reset() with its first observation.");
    this.#return += reward;
    this.#agentSteps += 1;
    if (terminated || truncated) {
      this.#episodes = [encodeEpisode(this.#return, this.#agentSteps)];
      this.#return = this.#agentSteps = 0;
    }
    if (terminated) {
      [this.#state, this.#reward] = ["terminated", reward];
      return null;
    }
    this.#write(observation, reward, false, truncated);
    if (truncated) {
      const episodes = this.#episodes;
      this.#episodes = [];
      await this.#ask(episodes);
      this.#state = "ended";
      return null;
    }
    return this.#ask();
  }

  /** Leaves the learner. */
  close() {
    this.#socket?.close();
  }

  /** Sends the newest step, and waits for the action; sends it again to the next learner if this one is lost. */
  async #ask(episodes = []) {
    for (;;) {
      try {
        this.#send(encodeStep(this.#last, episodes));
        const found = await this.#receive();
        this.#applied += 1;
        return this.#action(actionsOf(found));
      } catch (error) {
        if (error instanceof TrainingEnded || error instanceof Refused) throw error;
        await this.#join();
        if (this.#mustReset) this.#last.set([0, 0, 0, 0, 1, 0]); // Others have played here since: begin anew.
        episodes = [];
      }
    }
  }

  async #join() {
    let backoff = FIRST_BACKOFF_MS;
    for (const begin = Date.now(); ; ) {
      try {
        await this.#open();
        this.#send(encodeJoin(this.#processId, this.#task));
        const welcome = decodeWelcome(first(decode(await this.#receive()), 1));
        if (welcome.task !== this.#task || welcome.mustReset) this.#applied = 0;
        this.#mustReset = this.#last !== null && this.#applied === 0;
        [this.#task, this.#spec] = [welcome.task, welcome];
        this.#send(encodeReady(this.#applied));
        return;
      } catch (error) {
        if (error instanceof TrainingEnded || error instanceof Refused) throw error;
        if (Date.now() - begin > this.#patienceMs) throw error;
        await new Promise((resolve) => setTimeout(resolve, backoff * (0.7 + 0.6 * Math.random())));
        backoff = Math.min(2 * backoff, LONGEST_BACKOFF_MS);
      }
    }
  }

  #open() {
    this.#socket?.close();
    [this.#inbox, this.#end] = [[], null];
    const socket = (this.#socket = new this.#WebSocket(this.#url, this.#protocols));
    socket.binaryType = "arraybuffer";
    let status = null;
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      if (typeof data === "string") status = JSON.parse(data);
      else this.#inbox.push(new Uint8Array(data));
      this.#waiting?.();
    };
    return new Promise((resolve, reject) => {
      socket.onopen = () => resolve();
      socket.onclose = () => {
        if (socket !== this.#socket) return;
        this.#end = endOf(status);
        this.#waiting?.();
        reject(this.#end);
      };
      socket.onerror = () => {}; // `onclose` follows.
    });
  }

  async #receive() {
    while (this.#inbox.length === 0) {
      if (this.#end) throw this.#end;
      await new Promise((resolve) => (this.#waiting = resolve));
    }
    return this.#inbox.shift();
  }

  #send(message) {
    if (this.#end) throw this.#end;
    this.#socket.send(message);
  }

  /** Writes a record: reward, done, truncated, and the arrays of the observation. */
  #write(observation, reward, done, truncated) {
    const leaves = this.#spec.observation;
    const record = new Uint8Array(6 + leaves.reduce((sum, leaf) => sum + bytesOf(leaf), 0));
    const view = new DataView(record.buffer);
    view.setFloat32(0, reward, true);
    [record[4], record[5]] = [done, truncated];
    let offset = 6;
    for (const leaf of leaves) {
      const entry = leaf.name === "" ? observation : leaf.name.split("/").reduce((found, key) => found[key], observation);
      const values = ArrayBuffer.isView(entry) ? entry : [entry].flat(Infinity);
      const size = leaf.bits.length ? product(leaf.bits) : product(leaf.shape);
      if (values.length !== size) {
        throw new Error(`The observation ${leaf.name} has ${values.length} numbers, and the learner expects ${size}.`);
      }
      if (leaf.bits.length) {
        for (let i = 0; i < size; i++) if (values[i]) record[offset + (i >> 3)] |= 128 >> (i & 7);
      } else {
        const [bytes, set] = DTYPES[leaf.dtype];
        for (let i = 0; i < size; i++) view[set](offset + i * bytes, values[i], true);
      }
      offset += bytesOf(leaf);
    }
    [this.#last, this.#observation] = [record, observation];
  }

  /** A number for a single discrete action, else an array of numbers. */
  #action(bytes) {
    const { dtype, shape } = this.#spec.action;
    const [size, , get] = DTYPES[dtype];
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const values = Array.from({ length: product(shape) }, (_, i) => view[get](i * size, true));
    return shape.length === 0 ? values[0] : values;
  }
}

function endOf(status) {
  if (status?.code === "OK") return new TrainingEnded("Training is complete.");
  if (REFUSALS.includes(status?.code)) return new Refused(status.message);
  return new Error(status ? status.message : "The learner cannot be reached.");
}

const product = (sizes) => sizes.reduce((total, size) => total * size, 1);
const bytesOf = (leaf) => product(leaf.shape) * DTYPES[leaf.dtype][0];

// Protocol buffers: a message is a list of [field number, value], where numbers are varints and the rest bytes.

function varint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    bytes.push(Number(rest & 127n) | (rest > 127n ? 128 : 0));
    rest >>= 7n;
  } while (rest);
  return bytes;
}

const joined = (parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
const number = (field, value) => [...varint(field << 3), ...varint(value)];
const bytes = (field, value) => joined([varint((field << 3) | 2), varint(value.length), value]);

const encodeJoin = (processId, task) =>
  bytes(1, joined([number(1, PROTOCOL_VERSION), [(2 << 3) | 1], processId, number(3, 1), number(4, 1), number(5, task)]));
const encodeReady = (applied) => bytes(2, bytes(1, varint(applied)));
const encodeStep = (record, episodes) =>
  bytes(3, joined([[(1 << 3) | 5, 0, 0, 0, 0], bytes(2, record), ...episodes.map((episode) => bytes(3, episode))]));

function encodeEpisode(episodeReturn, agentSteps) {
  const float = new Uint8Array(Float32Array.of(episodeReturn).buffer);
  return joined([[(2 << 3) | 5], float, number(3, agentSteps)]);
}

function decode(message) {
  const fields = [];
  let offset = 0;
  const next = () => {
    let [value, shift] = [0n, 0n];
    for (;;) {
      const byte = message[offset++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
      shift += 7n;
    }
  };
  const take = (size) => message.subarray(offset, (offset += size));
  while (offset < message.length) {
    const key = next();
    const value = [next, () => take(8), () => take(next()), null, null, () => take(4)][key & 7]();
    fields.push([key >> 3, value]);
  }
  return fields;
}

const all = (fields, wanted) => fields.filter(([field]) => field === wanted).map(([, value]) => value);
const first = (fields, wanted, otherwise = new Uint8Array()) => all(fields, wanted)[0] ?? otherwise;
const text = (value) => new TextDecoder().decode(value);
const actionsOf = (message) => first(decode(first(decode(message), 2)), 2);

function integers(fields, wanted) {
  // Packed, as proto3 does.
  return all(fields, wanted).flatMap((value) => {
    if (typeof value === "number") return [value];
    const found = [];
    for (let i = 0; i < value.length; ) {
      const begin = i;
      while (value[i++] & 128);
      found.push(decode(Uint8Array.from([8, ...value.subarray(begin, i)]))[0][1]);
    }
    return found;
  });
}

function decodeSpec(message) {
  const fields = decode(message);
  return { name: text(first(fields, 1)), dtype: text(first(fields, 2)), shape: integers(fields, 3), bits: integers(fields, 6) };
}

function decodeWelcome(message) {
  const fields = decode(message);
  return {
    task: first(fields, 2, 0),
    mustReset: Boolean(first(fields, 3, 0)),
    observation: all(fields, 7).map(decodeSpec),
    action: decodeSpec(first(fields, 8)),
  };
}
