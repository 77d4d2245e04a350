// Who has not signed in sees this, and nothing of the node.
import { useState } from "preact/hooks";
import { NodeError, signIn } from "../lib/api.ts";

export function SignIn({ said }: { said: string }) {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState(said);
  const [busy, setBusy] = useState(false);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn("Bearer", token.trim());
    } catch (error) {
      setWrong(
        error instanceof NodeError && error.status === 401
          ? "That is not a token of this node."
          : error instanceof Error
            ? error.message
            : "",
      );
    }
    setBusy(false);
  };

  return (
    <main class="sign-in">
      <h1>probing</h1>
      <p>
        This node asks who you are. Run <code>probing web</code> where it runs, or give a token:
      </p>
      <form onSubmit={submit}>
        <label>
          token{" "}
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={token}
            onInput={(e) => setToken(e.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={busy || token.trim().length < 8}>
          sign in
        </button>
      </form>
      <p class="bad" role="alert">
        {wrong}
      </p>
      <p class="dim">
        <code>probing token</code> shows yours to the user who runs the node;{" "}
        <code>probing token new --scope read</code> makes one for somebody else.
      </p>
    </main>
  );
}
