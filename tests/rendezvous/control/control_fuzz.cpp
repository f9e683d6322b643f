// libFuzzer's target for what agents say: any bytes, as frames and as messages to the coordinator of three
// nodes. However the frames are cut they say the same; a message that was taken is the same after its own
// bytes; and no job of which a worker, a node or a user has ended a round is told to end with 0.
//
// An input is a byte that chooses the job, and then lines, each one of an agent:
//
//     0..4, the connection | a message's JSON, or `x`: the connection is closed, or nothing: time passes
//
// Half of the changes put a whole message of any type in, made from the descriptions: a new one is tried as
// well.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: control_fuzz -max_total_time=60
#include <algorithm>
#include <cstdint>

#include "rendezvous/base/check.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/text/split.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/random_values.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace ddprun {
namespace {

constexpr int kNodes = 3;
constexpr std::uint64_t kConnections = 5;

std::string json_of_frame(const std::string& frame) { return frame.substr(sizeof(std::uint32_t)); }

void come_back(const ControlMessage& message) {
    const auto back = decode_control(json_of_frame(encode_control(message)));
    check(back.has_value() && *back == message, "a control message is another one after its own bytes");
}

// What the frames say in pieces of so many bytes, and how it ends.
std::vector<std::string> said_in(std::string_view stream, std::size_t piece) {
    ControlFrames frames;
    std::vector<std::string> said;
    while (!stream.empty()) {
        const std::string_view next = stream.substr(0, piece);
        frames.append(next);
        stream.remove_prefix(next.size());
        for (;;) {
            const auto message = frames.next();
            if (frames.is_broken()) {
                said.push_back("broken");
                return said;
            }
            if (!message) break;
            said.push_back(encode_control(*message));
        }
    }
    return said;
}

CoordinatorOptions job_of(unsigned choice) {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = kNodes};
    options.restarts = {.max_restarts = (choice & 2) != 0 ? 2 : 0, .min_uptime = {}};
    if ((choice & 4) != 0) options.heartbeat = std::chrono::seconds(5);
    if ((choice & 8) != 0) options.elasticity.min_nodes = 2;
    options.failover = (choice & 16) != 0;
    if ((choice & 32) != 0) options.exit_wait = ExitWaitOptions{std::chrono::seconds(1), false, "1"};
    options.asks_about_failures = (choice & 64) != 0;
    return options;
}

class Job {
  public:
    // In odd ones the three nodes have begun.
    explicit Job(unsigned choice) : coordinator_(job_of(choice), kStart) {
        if ((choice & 1) == 0) return;
        for (int node = 0; node < kNodes; ++node) {
            Hello agent = hello(node, kNodes, 2);
            if ((choice & 8) != 0) agent.min_nodes = 2;
            hear(coordinator_.receive(static_cast<std::uint64_t>(node), agent, now_));
        }
    }

    void take(std::string_view line) {
        const std::uint64_t from = static_cast<unsigned char>(line.front()) % kConnections;
        const std::string_view said = line.substr(1);
        if (said.empty()) {
            now_ = std::max(coordinator_.next_deadline().value_or(now_), now_);
            hear(coordinator_.tick(now_));
        } else if (said == "x") {
            hear(coordinator_.closed(from, now_));
        } else if (auto message = decode_control(said)) {
            come_back(*message);
            // Versions are refused by themselves; here all are of one.
            if (auto* greeting = std::get_if<Hello>(&*message)) greeting->version = "1";
            hear(coordinator_.receive(from, *message, now_));
        }
    }

  private:
    void hear(const Coordinator::Outbox& outbox) {
        for (const auto& outgoing : outbox) {
            come_back(outgoing.message);
            if (std::holds_alternative<RoundReady>(outgoing.message)) has_failed_ = false;
            if (const auto* stop = std::get_if<Stop>(&outgoing.message))
                has_failed_ = has_failed_ || stop->cause.kind != Failure::Kind::resized;
            if (const auto* refused = std::get_if<Refused>(&outgoing.message))
                check(refused->exit_code % 256 != 0, "who is refused is told to end with 0");
            if (const auto* finish = std::get_if<Finish>(&outgoing.message))
                check(!has_failed_ || finish->exit_code % 256 != 0, "a failed job ends with 0");
        }
    }

    Coordinator coordinator_;
    TimePoint now_ = kStart;
    bool has_failed_ = false;  // the round
};

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
    ddprun::Job job(data[0]);
    std::string stream;
    for (const std::string_view line : ddprun::split_at(input, '\n')) {
        if (line.empty()) continue;
        job.take(line);
        ddprun::put_u32(stream, static_cast<std::uint32_t>(line.size() - 1));
        stream += line.substr(1);
    }
    for (const std::string_view bytes : {std::string_view(stream), input}) {
        ddprun::check(
            ddprun::said_in(bytes, std::size_t{data[0]} + 1) == ddprun::said_in(bytes, bytes.size()),
            "what frames say depends on how they were cut");
    }
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
    ddprun::RandomValues values(seed, seed % 4 == 0, ddprun::kCountRange);
    if (size == 0 || values.below(2) == 0) return LLVMFuzzerMutate(data, size, max_size);
    std::string line = "\n" + std::string(1, static_cast<char>('0' + values.below(ddprun::kConnections)));
    switch (values.below(8)) {
        case 0: line += 'x'; break;
        case 1: break;
        default: {
            const auto message = values.make<ddprun::ControlMessage>();
            line += ddprun::json_of_frame(ddprun::encode_control(message));
        }
    }
    if (size + line.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::copy(line.begin(), line.end(), data + size);
    return size + line.size();
}
