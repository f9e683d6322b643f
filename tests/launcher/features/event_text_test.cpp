#include "launcher/features/event_story.hpp"

#include <boost/json.hpp>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

EventOrigin trainer() {
    return {.run_id = "job",
            .role = "trainer",
            .host = "gpu07",
            .entry_point = "train.py",
            .rdzv_backend = "c10d",
            .pid = 4711};
}

constexpr EventTime kLongAfter{1'700'000'000'123, 65'432};

// Every byte there is, many of them more than once.
std::string any_bytes(std::size_t size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 7);
    return bytes;
}

}  // namespace

TEST_CASE("event text: how a worker and an agent have ended, as torchrun says it") {
    StatusEvent event{.state = EndState::succeeded,
                      .worker = StatusEvent::Worker{5, 99, 1, 3, 4},
                      .group_rank = 1,
                      .group_world_size = 2,
                      .restart_count = 3,
                      .failure = {},
                      .duration_ms = 1500};
    CHECK(
        status_event_line(trainer(), kLongAfter, event) ==
        R"({"name":"torchelastic.worker.status.SUCCEEDED","source":"WORKER","timestamp":1700000000123,)"
        R"("metadata":{"run_id":"job","global_rank":5,"group_rank":1,"worker_id":"99","role":"trainer",)"
        R"("hostname":"gpu07","state":"SUCCEEDED","total_run_time":65,"rdzv_backend":"c10d","raw_error":null,)"
        R"("metadata":"{\"group_world_size\":2,\"entry_point\":\"train.py\",\"local_rank\":[1],)"
        R"(\"role_rank\":[3],\"role_world_size\":[4]}","agent_restarts":3,"duration_ms":1500}})"
        "\n");
    event.state = EndState::terminated;
    event.worker.reset();
    event.duration_ms.reset();
    CHECK(
        status_event_line(trainer(), kLongAfter, event) ==
        R"({"name":"torchelastic.worker.status.TERMINATED","source":"AGENT","timestamp":1700000000123,)"
        R"("metadata":{"run_id":"job","global_rank":null,"group_rank":1,"worker_id":null,"role":"trainer",)"
        R"("hostname":"gpu07","state":"TERMINATED","total_run_time":65,"rdzv_backend":"c10d","raw_error":null,)"
        R"("metadata":"{\"group_world_size\":2,\"entry_point\":\"train.py\"}","agent_restarts":3,)"
        R"("duration_ms":null}})"
        "\n");
}

TEST_CASE("event text: the error of a worker is that of its file, or torchrun's word for none") {
    StatusEvent event{.state = EndState::failed, .worker = StatusEvent::Worker{}, .failure = Failure{}};
    const auto raw_error = [&event] {
        const json::value line = json::parse(status_event_line(trainer(), kLongAfter, event));
        CHECK(line.at("name").as_string() == "torchelastic.worker.status.FAILED");
        return json::parse(line.at("metadata").at("raw_error").as_string());
    };
    CHECK(raw_error() == json::value{{"message", "<NONE>"}});
    event.failure->error_message = "ValueError: \"no\"\n";
    event.failure->traceback = "Traceback";
    event.failure->unix_time_ms = 1'700'000'000'999;
    CHECK(raw_error() == json::parse(R"({"message": {"message": "ValueError: \"no\"\n",
                                        "extraInfo": {"py_callstack": "Traceback", "timestamp": "1700000000"}}})"));
}

TEST_CASE("event text: where a node stands in the rendezvous, as torchrun says it") {
    CHECK(rendezvous_event_line(trainer(), {.state = RendezvousState::failed,
                                            .message = "refused",
                                            .endpoint = "gpu00:29500",
                                            .rank = 1,
                                            .error = "why"}) ==
          R"({"name":"dynamic_rendezvous.py:DynamicRendezvousHandler.next_rendezvous","run_id":"job",)"
          R"("message":"refused","hostname":"gpu07","pid":4711,"node_state":"FAILED",)"
          R"("master_endpoint":"gpu00:29500","rank":1,"local_id":null,"error_trace":"why"})"
          "\n");
    const std::pair<RendezvousState, const char*> kStates[] = {{RendezvousState::hosts, "INIT"},
                                                               {RendezvousState::runs, "RUNNING"},
                                                               {RendezvousState::closed, "SUCCEEDED"},
                                                               {RendezvousState::failed, "FAILED"}};
    for (const auto& [state, word] : kStates) {
        const json::value line = json::parse(rendezvous_event_line(trainer(), {.state = state}));
        CHECK(line.at("node_state").as_string() == word);
        CHECK(line.at("rank").is_null());
    }
}

TEST_CASE("event text: our own events say who, when and what") {
    CHECK(own_event_line(trainer(), kLongAfter, "round.started", {{"round", 2}}) ==
          R"({"name":"ddprun.round.started","source":"DDPRUN","timestamp":1700000000123,"metadata":)"
          R"({"run_id":"job","hostname":"gpu07","launcher_pid":4711,"elapsed_ms":65432,"round":2}})"
          "\n");
}

TEST_CASE("event text: whatever texts hold, a line is one line of valid JSON and has an end") {
    const std::string any = any_bytes(100'000);
    const EventOrigin hostile{.run_id = any,
                              .role = std::string(100'000, '\x01'),
                              .host = any,
                              .entry_point = std::string(100'000, '\x01'),
                              .rdzv_backend = "c10d"};
    Failure failure;
    failure.error_message = std::string(100'000, '\x01');
    failure.traceback = failure.error_message;
    for (const std::string& line :
         {status_event_line(hostile, kLongAfter,
                            {.state = EndState::failed, .worker = StatusEvent::Worker{}, .failure = failure}),
          rendezvous_event_line(hostile, {.message = any, .endpoint = any, .error = any}),
          own_event_line(hostile, kLongAfter, "x", {{"text", event_text(any)}})}) {
        CHECK(line.size() <= kMaxEventLine);
        CHECK(line.find('\n') == line.size() - 1);
        CHECK(json::parse(line).is_object());
    }
    CHECK(event_text(std::string(kMaxEventText + 1, 'a')).size() == kMaxEventText);
    CHECK(event_text("\xff") == "\xef\xbf\xbd");
    const std::string before(kMaxEventText - 20, 'a');
    CHECK(event_text(before + " db://me:password@host") == before + " db://me:(not shown)");
}

}  // namespace ddprun
