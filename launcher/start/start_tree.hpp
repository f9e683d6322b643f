// branches_of makes the tree of relays that starts a job: which relay starts which others. DownMessage and
// UpMessage are what they say to each other. Pure.
//
// Relays talk by the standard input and output of the remote shell, in frames, after the lines of the
// handshake (remote_shell.hpp). All of them run one build.
//
//   frame = length, four bytes, the lowest first + the message as binary_codec.hpp has it + a newline
//
// The newline is for programs on the way that pass on whole lines only, as srun does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// --- which variables go along to the hosts of a job, and which are a host's own

// Says whether the variable speaks of the machine, the session or the scheduler's step in which it is set.
// Bound variables are not carried: a host's own stay. apps/ddprun/manual/clusters.md lists them.
bool is_host_bound(std::string_view name);

// Returns the variables that the starter sends.
Environment carried_environment(const Environment& environment);

// HostsOwn says which of a host's own variables count there besides those that are bound to it.
struct HostsOwn {
    bool all = false;   // nothing was carried
    bool gpus = false;  // which GPUs are seen, where the host says so
};

// Returns the environment of a host's agent: what was carried, and over it the host's own variables that are
// not carried.
Environment agent_environment(const Environment& carried, const Environment& own, HostsOwn which);

// Returns what --clean-env leaves: who the user is, where programs are, language and time, and which GPUs the
// job has.
Environment clean_environment(const Environment& environment);

// kMaxFrameUp: bytes of a frame up. A piece of output is smaller (LineSplitter::kMaxLine, twice at most).
inline constexpr std::size_t kMaxFrameUp = 1024 * 1024;
// kMaxFrameDown: bytes of a frame down, for an environment of some megabytes and a long list of hosts.
inline constexpr std::size_t kMaxFrameDown = 32 * 1024 * 1024;

// StartNode is one node of the job, on its host.
struct StartNode {
    int rank = 0;
    std::string target;    // for the remote shell
    int workers = -1;      // -1: as the options say
    std::string devices;   // empty: as the host has them
    bool is_here = false;  // the starter's own machine, which needs no remote shell
    // slots: where the number of workers was not said, a host has one for each GPU, or this many without
    // GPUs. 0: the number was said.
    int slots = 0;
    int gpus = 0;  // as in ListedHost
};
BOOST_DESCRIBE_STRUCT(StartNode, (), (rank, target, workers, devices, is_here, slots, gpus))

// --- down

// FileOwners: by the name of a file or folder, the users that have it at the starter.
using FileOwners = std::map<std::string, std::vector<std::uint32_t>>;

// StartPlan is the first message: what the relay's agent is and what stands behind the relay.
struct StartPlan {
    std::vector<StartNode> nodes;  // the relay's own node first
    int fan_out = 2;
    std::string directory;
    std::vector<std::uint32_t> launcher_owners;  // users that own the launcher's file at the starter
    FileOwners owners;                           // of the files that decide which code runs: owners_here()
    Environment environment;
    bool clean_environment = false;  // the agent has the host's own environment
    bool own_gpus = false;           // the agent has the host's own choice of which GPUs are seen
    std::vector<std::string> options;
    std::vector<std::string> program;
    std::vector<std::string> started;  // by --wrap, --program, --on-failure and PYTHON_EXEC
    Environment read_options;          // by option: what was read from a pipe that it names
    std::string read_program;          // what all workers read from their standard inputs; empty: nothing
    std::string python;                // of the starter's environment, for launchers in none; empty: none
    std::string nnodes;
    std::vector<std::string> host_names;  // of nodes 0, 1, …; for node 0's agent alone
    std::string master_addr;
    int master_port = 0;  // 0: node 0 takes a free one and says so
    std::string secret;
    std::vector<std::string> rsh;
    bool ships = true;
    std::string run_record;  // how the starter was started, for run.json; empty: no run.json is written
};
BOOST_DESCRIBE_STRUCT(StartPlan, (),
                      (nodes, fan_out, directory, launcher_owners, owners, environment, clean_environment,
                       own_gpus, options, program, started, read_options, read_program, python, nnodes,
                       host_names, master_addr, master_port, secret, rsh, ships, run_record))

// BeginAgents: node 0 has this port, and the other agents may begin.
struct BeginAgents {
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(BeginAgents, (), (port))
// PassSignal: a signal for the agent on the node of the relay that receives this; with `to_all` also for the
// agents of all nodes behind that relay.
struct PassSignal {
    int signal = 0;
    bool to_all = false;
};
BOOST_DESCRIBE_STRUCT(PassSignal, (), (signal, to_all))
// EndAgents: the job is not wanted any more; SIGTERM to all agents.
struct EndAgents {};
BOOST_DESCRIBE_STRUCT(EndAgents, (), ())
using DownMessage = std::variant<StartPlan, BeginAgents, PassSignal, EndAgents>;

// --- up

// AgentOutput: whole lines, unless one is too long.
struct AgentOutput {
    int rank = 0;  // of the node
    bool is_error = false;
    std::string text;
};
BOOST_DESCRIBE_STRUCT(AgentOutput, (), (rank, is_error, text))
struct PortTaken {
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(PortTaken, (), (port))
// AgentRuns: the workers of this agent run, and thus those of all agents.
struct AgentRuns {
    int rank = 0;
};
BOOST_DESCRIBE_STRUCT(AgentRuns, (), (rank))
struct AgentEnded {
    int rank = 0;
    int code = 0;  // as a shell shows it
    bool by_signal = false;
};
BOOST_DESCRIBE_STRUCT(AgentEnded, (), (rank, code, by_signal))
// HostFailed: nothing more is heard from this node and from the nodes behind it.
struct HostFailed {
    std::vector<int> ranks;
    std::string text;
    bool was_there = false;  // the node's relay had begun
};
BOOST_DESCRIBE_STRUCT(HostFailed, (), (ranks, text, was_there))
using UpMessage = std::variant<AgentOutput, PortTaken, AgentRuns, AgentEnded, HostFailed>;

std::string frame_of(const DownMessage& message);
std::string frame_of(const UpMessage& message);

// Returns the message in a frame's bytes; nothing for bytes that are none.
std::optional<DownMessage> parse_down(std::string_view body);
std::optional<UpMessage> parse_up(std::string_view body);

// Says whether a message from the relay of a branch is about the nodes of that branch alone, with numbers
// that exist: a host speaks for no other one.
bool speaks_for_itself(const UpMessage& message, const std::vector<StartNode>& branch);

// FrameReader cuts a stream into frames' bodies. Holds no more than one frame and what came with it.
class FrameReader {
  public:
    explicit FrameReader(std::size_t limit) : limit_(limit) {}

    void push(std::string_view bytes) { held_ += bytes; }

    // Returns the next body, valid until push(); nothing where it has not come whole, or is_broken().
    std::optional<std::string_view> next();

    // Returns true after a frame that is longer than any that is sent, or has no end.
    bool is_broken() const { return broken_; }

  private:
    std::size_t limit_;
    std::string held_;
    std::size_t taken_ = 0;
    bool broken_ = false;
};

// --- the tree

inline constexpr int kDefaultFanOut = 32;
inline constexpr int kMaxFanOut = 4096;

// StartBranch: nodes that are reached by way of the first of them.
using StartBranch = std::vector<StartNode>;

// Makes at most `fan_out` (≥ 2) branches of nearly the same size, in the nodes' order; none is empty.
std::vector<StartBranch> branches_of(const std::vector<StartNode>& nodes, int fan_out);

// Makes the branches of the starter: node 0 and the nodes of its own machine alone, the others as branches_of
// does. Node 0 comes first.
std::vector<StartBranch> branches_of_starter(const std::vector<StartNode>& nodes, int fan_out);

// Returns the plan that the first node's relay of a branch is told.
StartPlan plan_of_branch(const StartPlan& whole, StartBranch branch);

// Returns the words behind the launcher's name for a node's agent: the plan's options, but for those that the
// plan itself decides. `port` 0: not known.
std::vector<std::string> agent_words(const StartPlan& plan, const StartNode& node, int port);

}  // namespace launch
}  // namespace ddprun
