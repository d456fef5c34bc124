// Catch, played in a page or in Node.js while a learner trains: a ball falls, and a paddle must be under it.
//
//   seed_rl learner --environment=external --spaces=clients/examples/catch.json --agent=vtrace \
//     --num_envs=4 --web_address=localhost:8080
//   node clients/examples/catch.mjs ws://localhost:8080

import { Learner, TrainingEnded } from "../js/seed_rl.mjs";

export const [ROWS, COLUMNS] = [10, 5];
const returns = []; // Of all games.

class Catch {
  row = 0; paddle = COLUMNS >> 1; ball = Math.floor(Math.random() * COLUMNS);

  /** Moves the paddle by action - 1; returns the observation, the reward, and whether the episode has ended. */
  step(action) {
    this.paddle = Math.min(Math.max(this.paddle + action - 1, 0), COLUMNS - 1);
    this.row += 1;
    const hasEnded = this.row === ROWS - 1;
    return [this.board(), hasEnded ? (this.ball === this.paddle ? 1 : -1) : 0, hasEnded];
  }

  board() {
    const board = new Float32Array(ROWS * COLUMNS);
    board[this.row * COLUMNS + this.ball] = board[(ROWS - 1) * COLUMNS + this.paddle] = 1;
    return board;
  }
}

/** Plays until training ends; calls `show(game, hasEnded)` after each step. */
export async function play(url, show, options = {}) {
  const learner = await Learner.connect(url, options);
  try {
    for (;;) {
      const game = new Catch();
      let action = await learner.reset(game.board());
      while (action !== null) {
        const [observation, reward, hasEnded] = game.step(action);
        if (hasEnded) returns.push(reward);
        await show(game, hasEnded);
        action = await learner.step(observation, reward, hasEnded, false);
      }
    }
  } catch (error) {
    if (!(error instanceof TrainingEnded)) throw error;
  } finally {
    learner.close();
  }
}

export function summary() {
  const last = returns.slice(-200);
  const mean = last.reduce((sum, value) => sum + value, 0) / last.length;
  return `${returns.length} episodes, mean return of the last ${last.length}: ${mean.toFixed(2)}`;
}

if (typeof process !== "undefined" && process.argv[1]?.endsWith("catch.mjs")) {
  await play(process.argv[2], (_, hasEnded) => hasEnded && returns.length % 500 === 0 && console.log(summary()));
}
