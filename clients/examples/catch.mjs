// Catch, played in a page or in Node.js while a learner trains: a ball falls, and a paddle must be under it.
//
//   seed_rl learner --environment=external --spaces=clients/examples/catch.json --agent=vtrace \
//     --num_envs=4 --web_address=localhost:8080
//   node clients/examples/catch.mjs ws://localhost:8080

import { Learner, TrainingEnded } from "../js/seed_rl.mjs";

export const ROWS = 10;
export const COLUMNS = 5;

export class Catch {
  reset() {
    [this.row, this.ball, this.paddle] = [0, Math.floor(Math.random() * COLUMNS), COLUMNS >> 1];
    return this.board();
  }

  /** Moves the paddle by action - 1; returns the observation, the reward, and whether the episode has ended. */
  step(action) {
    this.paddle = Math.min(Math.max(this.paddle + action - 1, 0), COLUMNS - 1);
    this.row += 1;
    const ended = this.row === ROWS - 1;
    return [this.board(), ended ? (this.ball === this.paddle ? 1 : -1) : 0, ended];
  }

  board() {
    const board = new Float32Array(ROWS * COLUMNS);
    board[this.row * COLUMNS + this.ball] = 1;
    board[(ROWS - 1) * COLUMNS + this.paddle] = 1;
    return board;
  }
}

/** Plays until training ends; calls `show(game, episodeReward)` after each step (null: it goes on). */
export async function play(url, show = async () => {}, options = {}) {
  const [learner, game] = [await Learner.connect(url, options), new Catch()];
  try {
    for (;;) {
      let action = await learner.reset(game.reset());
      while (action !== null) {
        const [observation, reward, terminated] = game.step(action);
        await show(game, terminated ? reward : null);
        action = await learner.step(observation, reward, terminated, false);
      }
    }
  } catch (error) {
    if (!(error instanceof TrainingEnded)) throw error;
  } finally {
    learner.close();
  }
}

if (typeof process !== "undefined" && process.argv[1]?.endsWith("catch.mjs")) {
  const rewards = [];
  await play(process.argv[2], async (game, reward) => {
    if (reward === null) return;
    rewards.push(reward);
    if (rewards.length % 500 === 0) {
      console.log(`${rewards.length} episodes, mean return ${rewards.slice(-200).reduce((a, b) => a + b) / 200}`);
    }
  });
}
