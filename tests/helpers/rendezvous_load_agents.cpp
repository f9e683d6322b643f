#include <fmt/core.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/connect.hpp"
#include "tests/helpers/rendezvous_load.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;

// What an agent of a machine with eight GPUs says.
Hello hello_of(int node, int nodes) {
    Hello hello{.version = "1",
                .run_id = "none",
                .node_rank = node,
                .nnodes = nodes,
                .local_world_size = 8,
                .host = fmt::format("gpu{:04}.cluster.example", node),
                .pid = 100 + node,
                .command = describe_command({"python3", "train.py", "--config", "configs/large.yaml"}),
                .reached_at = "127.0.0.1",
                .traits = {}};
    for (const char* name : {"the executable", "the script", "the GPU driver", "the GPU model", "NCCL_DEBUG",
                             "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "CUDA_DEVICE_MAX_CONNECTIONS",
                             "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED", "CUDA_HOME"})
        hello.traits.push_back({name, "16f2c0b3a85d49e7 (a value as long as a digest)"});
    return hello;
}

class AgentsLoad;

// One agent's conversation.
class ScriptedAgent {
  public:
    ScriptedAgent(AgentsLoad& load, int node) : load_(load), node_(node) {}

    asio::awaitable<void> run();
    void succeed();

  private:
    void send(const ControlMessage& message);
    bool receive(const ControlMessage& message);

    AgentsLoad& load_;
    int node_;
    int first_rank_ = 0;
    std::optional<asio::ip::tcp::socket> socket_;
};

class AgentsLoad {
  public:
    AgentsLoad(Endpoint port, int agents) : server(std::move(port)), count(agents), input_(context_) {}

    void run() {
        for (int node = 0; node < count; ++node)
            agents_.push_back(std::make_unique<ScriptedAgent>(*this, node));
        begin_ = LoadClock::now();
        for (auto& agent : agents_) {
            asio::co_spawn(context_, agent->run(), [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            });
        }
        context_.run();
    }

    void note_joined() {
        if (++joined_ == count) last_joined_ = LoadClock::now();
    }

    void note_ready() {
        if (++ready_ < count) return;
        const auto now = LoadClock::now();
        print_line(fmt::format("ready all_ms={:.1f} after_last_ms={:.1f}", milliseconds_between(begin_, now),
                               milliseconds_between(last_joined_, now)));
        input_.async_wait([this] {
            begin_ = LoadClock::now();
            for (auto& agent : agents_) agent->succeed();
        });
    }

    void note_finished() {
        if (++finished_ < count) return;
        print_line(fmt::format("finished end_ms={:.1f} sent={} received={} sent_bytes={} received_bytes={}",
                               milliseconds_between(begin_, LoadClock::now()), sent, received, sent_bytes,
                               received_bytes));
    }

    const Endpoint server;
    const int count;
    // Of all agents together, without heartbeats.
    long sent = 0, received = 0;
    std::size_t sent_bytes = 0, received_bytes = 0;

  private:
    asio::io_context context_{1};
    StandardInput input_;
    std::vector<std::unique_ptr<ScriptedAgent>> agents_;
    LoadClock::time_point begin_, last_joined_;
    int joined_ = 0, ready_ = 0, finished_ = 0;
};

asio::awaitable<void> ScriptedAgent::run() {
    socket_ = co_await async_connect_tcp(load_.server, kLoadTimeout);
    asio::write(*socket_, asio::buffer(kControlMagic));
    send(hello_of(node_, load_.count));
    load_.note_joined();
    ControlFrames frames;
    std::array<char, 4096> bytes{};
    for (;;) {
        const std::size_t size = co_await socket_->async_read_some(asio::buffer(bytes), asio::use_awaitable);
        frames.append({bytes.data(), size});
        for (;;) {
            const auto message = frames.next();
            if (!message) break;
            if (!std::holds_alternative<Heartbeat>(*message)) {
                ++load_.received;
                load_.received_bytes += encode_control(*message).size();
            }
            if (!receive(*message)) co_return;
        }
    }
}

// A few bytes find room in the kernel, so nobody waits here.
void ScriptedAgent::send(const ControlMessage& message) {
    const std::string bytes = encode_control(message);
    if (!std::holds_alternative<Heartbeat>(message)) {
        ++load_.sent;
        load_.sent_bytes += bytes.size();
    }
    asio::write(*socket_, asio::buffer(bytes));
}

// False when the conversation is over.
bool ScriptedAgent::receive(const ControlMessage& message) {
    if (const auto* question = std::get_if<Heartbeat>(&message)) {
        send(Heartbeat{.number = question->number});
    } else if (const auto* round = std::get_if<RoundReady>(&message)) {
        first_rank_ = round->base_rank;
        send(Heartbeat{});  // its workers are started
        load_.note_ready();
    } else if (std::holds_alternative<Finish>(message)) {
        send(Goodbye{});
        load_.note_finished();
        return false;
    } else if (const auto* refused = std::get_if<Refused>(&message)) {
        throw std::runtime_error("an agent was refused: " + refused->reason);
    } else if (const auto* given_up = std::get_if<GivenUp>(&message)) {
        throw std::runtime_error("an agent was given up: " + given_up->reason);
    } else if (std::holds_alternative<Stop>(message)) {
        throw std::runtime_error("the round was stopped");
    }
    return true;
}

void ScriptedAgent::succeed() {
    send(RankSucceeded{.round = 0, .rank = first_rank_});
    send(WorkersSucceeded{.round = 0});
}

}  // namespace

void load_agents(const Endpoint& server, int count) { AgentsLoad(server, count).run(); }

}  // namespace ddprun
