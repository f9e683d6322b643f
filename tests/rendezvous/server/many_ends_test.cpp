// The end of a large job: every agent that wants to know is told how each rank has ended, and that costs the
// host the bytes of it once.
#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <future>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {
namespace {

constexpr int kNodesOfMany = 25;
constexpr int kWorkersOfMany =
    kIsSanitized ? 400 : 4'000;  // Slower tenfold, all of them would take a minute and more.
constexpr std::size_t kRanksOfMany = std::size_t{kNodesOfMany} * kWorkersOfMany;
constexpr int kReaders = 2;  // nodes that want to know how all have ended, and read it: node 0 among them
constexpr int kStuck = 8;    // likewise, but they read nothing

Hello hello_of_many(int node) {
    Hello hello = ddprun::hello(node, kNodesOfMany, kWorkersOfMany);
    hello.wants_rank_ends = node < kReaders + kStuck;
    return hello;
}

// All that a node says of its workers.
std::vector<ControlMessage> last_words(int base_rank) {
    std::vector<RankEnd> ends(kWorkersOfMany);
    for (int i = 0; i < kWorkersOfMany; ++i) {
        RankEnd& end = ends[static_cast<std::size_t>(i)];
        end = {.rank = base_rank + i, .local_rank = i, .host = {}, .pid = 100'000 + i, .wall_ms = 123'456};
    }
    std::vector<ControlMessage> words;
    for (RankEnds& some : as_messages(0, ends)) words.emplace_back(std::move(some));
    words.emplace_back(WorkersSucceeded{0});
    return words;
}

// An agent that reads nothing once its workers have ended.
class StuckAgent {
  public:
    StuckAgent(std::uint16_t port, int node) : fd_(connect_tcp({"127.0.0.1", port}, kHangGuard)) {
        write(std::string(kControlMagic) + encode_control(hello_of_many(node)));
    }
    StuckAgent(const StuckAgent&) = delete;
    StuckAgent& operator=(const StuckAgent&) = delete;
    ~StuckAgent() { ::close(fd_); }

    void end_workers() {
        for (const ControlMessage& word : last_words(await_round().base_rank)) write(encode_control(word));
    }

  private:
    RoundReady await_round() {
        ControlFrames frames;
        for (;;) {
            const auto message = frames.next();
            if (message && std::holds_alternative<RoundReady>(*message))
                return std::get<RoundReady>(*message);
            if (message) continue;
            std::array<char, 4096> bytes{};
            const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
            REQUIRE(count > 0);
            frames.append({bytes.data(), static_cast<std::size_t>(count)});
        }
    }

    void write(const std::string& bytes) {
        REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    }

    int fd_;
};

// The agents that read what they are sent, over real clients.
class ReadingAgents {
  public:
    explicit ReadingAgents(const Endpoint& server) : server_(server) {}

    void add(int node) {
        CoordinatorClientEvents events;
        events.on_message = [this, node](const ControlMessage& message) { receive(node, message); };
        events.on_trouble = [](const std::string& cause) { FAIL(cause); };
        events.on_lost = [node](const CoordinatorLoss& loss) { FAIL("node " << node << ": " << loss.cause); };
        const CoordinatorClientOptions options{.coordinator = server_,
                                               .hello = hello_of_many(node),
                                               .join_deadline = CoordinatorClient::TimePoint::max()};
        clients_[node] = std::make_unique<CoordinatorClient>(context_.get_executor(), options, events);
        clients_[node]->join();
    }

    void run() { context_.run_for(kHangGuard); }

    std::map<int, std::size_t> ends;  // that each has heard of
    std::map<int, Finish> finished;

  private:
    void receive(int node, const ControlMessage& message) {
        if (const auto* ready = std::get_if<RoundReady>(&message)) {
            for (const ControlMessage& word : last_words(ready->base_rank)) clients_[node]->send(word);
        } else if (const auto* some = std::get_if<RankEnds>(&message)) {
            ends[node] += some->ends.size();
        } else if (const auto* finish = std::get_if<Finish>(&message)) {
            finished[node] = *finish;
            clients_[node]->close([] {});
        }
    }

    boost::asio::io_context context_;
    Endpoint server_;
    std::map<int, std::unique_ptr<CoordinatorClient>> clients_;
};

}  // namespace

TEST_CASE("a job of 100,000 ranks ends well for all that want to know of each, and who is stuck is left") {
    std::promise<void> over;
    RendezvousServer server(
        {.coordinator = {.version = "1", .run_id = "none", .job_id = "job", .nnodes = kNodesOfMany}},
        {.on_over = [&] { over.set_value(); }});
    std::vector<std::unique_ptr<StuckAgent>> stuck;
    for (int node = kReaders; node < kReaders + kStuck; ++node)
        stuck.push_back(std::make_unique<StuckAgent>(server.port(), node));
    const std::size_t before = ::mallinfo2().uordblks;

    ReadingAgents agents({"127.0.0.1", server.port()});
    for (int node = 0; node < kNodesOfMany; ++node) {
        if (node < kReaders || node >= kReaders + kStuck) agents.add(node);
    }
    auto ends = std::async(std::launch::async, [&] {
        for (const auto& agent : stuck) agent->end_workers();
    });
    agents.run();
    ends.get();
    const std::size_t held = ::mallinfo2().uordblks - before;  // a sanitizer's own heap tells nothing here

    CHECK(agents.finished.size() == std::size_t{kNodesOfMany - kStuck});
    for (const auto& [node, finish] : agents.finished) {
        CHECK(finish.exit_code == 0);
        CHECK(finish.succeeded == static_cast<int>(kRanksOfMany));
        CHECK(agents.ends[node] == (node < kReaders ? kRanksOfMany : 0));
    }
    // The ends themselves, and their bytes once; the stuck ones' own would be 150 MB.
    INFO(held << " bytes held");
    CHECK(held < 100'000'000);
    // ControlSession::kStuckTimeout later.
    CHECK(over.get_future().wait_for(kHangGuard) == std::future_status::ready);
}

}  // namespace ddprun
