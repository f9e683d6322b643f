// answer_to() says what a launcher answers over HTTP, and to which callers, by a table of routes. http_server
// carries the bytes; here is what they mean. Pure.
//
//   GET  /status               the job's own user   JobView, as JSON: all nodes of the job
//   GET  /output?rank=R&from=P the job's own user   KeptPiece, as JSON: what workers of this node have
//   printed;
//                                                   without rank all of them; &wait=1: if need be a moment
//                                                   later
//   GET  /events               the job's own user   the last events, as the lines of --events
//   POST /signal?name=SIGTERM  the job's own user   SignalEffect, as JSON; with 409 if it is refused
//   GET  any path              the health port      health_text()
//
// HEAD is answered as GET is, without the text.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/kept_output.hpp"
#include "launcher/view/job_view.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// Caller says by which way a request has come.
enum class Caller {
    own_user,  // the job's socket, which is closed to other users
    anybody,   // the health port
};

enum class Verb { get, post, other };

struct ViewRequest {
    Caller caller = Caller::anybody;
    Verb verb = Verb::other;
    std::string target;  // as it came: a path, and a query behind '?'
};

// SignalEffect: what a signal to the launcher does.
struct SignalEffect {
    std::string refusal;    // why it does nothing; empty: it is sent
    bool ends_job = false;  // other signals only reach the workers
    bool operator==(const SignalEffect&) const = default;
};
BOOST_DESCRIBE_STRUCT(SignalEffect, (), (refusal, ends_job))

// ViewSource: what answers are made of; called on the thread of the server's executor.
struct ViewSource {
    std::function<AgentStatus()> status;  // of this node
    // Gathers what all nodes say, and calls `done` once, at once or later; never where the agent ends before.
    std::function<void(std::function<void(const JobView&)> done)> job = {};
    // Reads what this node's workers have printed; calls `done` as `job` does.
    std::function<void(const KeptQuestion&, std::function<void(const KeptPiece&)> done)> output = {};
    std::function<std::string()> events = {};
    std::function<SignalEffect(int)> effect_of = {};
    // deliver is called when the answer is on its way, if the signal was not refused.
    std::function<void(int)> deliver = {};
};

inline constexpr unsigned kHttpOk = 200;
inline constexpr unsigned kHttpBadRequest = 400;
inline constexpr unsigned kHttpNotFound = 404;
inline constexpr unsigned kHttpWrongVerb = 405;
inline constexpr unsigned kHttpConflict = 409;

struct ViewAnswer {
    unsigned status = kHttpOk;
    std::string text;     // JSON and a newline; empty where the status says all
    std::string allowed;  // the verbs that this path has, where the request's is not among them
    int signal = 0;       // to be delivered when the answer is on its way; 0: none
};

using ViewReply = std::function<void(ViewAnswer)>;
// Calls `reply` once: before it returns, or later on the same thread; never where the agent ends before.
void answer_to(const ViewRequest& request, const ViewSource& source, const ViewReply& reply);

// --- for those who ask

inline constexpr std::string_view kStatusTarget = "/status";
inline constexpr std::string_view kEventsTarget = "/events";
std::string signal_target(int signal);
std::string output_target(const KeptQuestion& question);

// kMaxAnswer: the longest answer; a longer one is no answer. A JobView has some 400 bytes for each worker of
// the job.
inline constexpr std::size_t kMaxAnswer = 64 << 20;

// Returns nothing for a text that is no such answer.
std::optional<SignalEffect> parse_signal_effect(std::string_view text);
std::optional<KeptPiece> parse_kept_piece(std::string_view text);

// Returns what every caller at the health port may read, so nothing that is a user's alone: one JSON object
// and a newline.
std::string health_text(const AgentStatus& status);

}  // namespace launch
}  // namespace ddprun
