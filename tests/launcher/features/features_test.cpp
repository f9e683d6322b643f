// The table of features: which are made, what is opened early, what workers get late.
#include "launcher/features/features.hpp"

#include <filesystem>
#include <functional>

#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/hang_watch.hpp"
#include "launcher/features/health_port.hpp"
#include "launcher/features/known_job.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/stuck_workers.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/features/watchdog.hpp"
#include "launcher/watch/shared_looks.hpp"
#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

LaunchOptions of_one_worker() {
    LaunchOptions options;
    options.workers = {{.argv = {"program"}}};
    return options;
}

std::size_t made_of(const LaunchOptions& options) {
    LauncherLog log(Verbosity::quiet);
    return make_features({.options = options, .log = log}).size();
}

// What is opened early; `health_port`: the variable.
struct Opened {
    explicit Opened(const char* health_port = nullptr) {
        if (health_port != nullptr) environment_[kHealthPortVariable] = health_port;
    }

    std::optional<std::string> operator()() {
        return open_features(options, {.environment = environment_,
                                       .paths = paths_,
                                       .starts_nothing = starts_nothing,
                                       .site_policy = [this] {
                                           ++policies_read;
                                           return SitePolicy{.health_on_loopback = on_loopback};
                                       }});
    }
    const HealthPortOptions& health() { return options.of<HealthPortOptions>(); }

    FeatureOptions options;
    bool starts_nothing = false;
    bool on_loopback = false;
    int policies_read = 0;

  private:
    Environment environment_;
    PathFacts paths_{.run_id = "job-1"};
};

}  // namespace

TEST_CASE("features: each is made where it was asked for, and not else") {
    const std::size_t always = made_of(of_one_worker());
    using Ask = std::function<void(LaunchOptions&)>;
    const Ask kAsks[] = {
        [](LaunchOptions& options) { options.features.of<LocalCacheOptions>().asked = true; },
        [](LaunchOptions& options) { options.features.of<HealthPortOptions>().port = 8081; },
        [](LaunchOptions& options) { options.features.of<TimeLimitOptions>().limit = 1s; },
        [](LaunchOptions& options) { options.features.of<TimeLimitOptions>().warn_before = 1s; },
        [](LaunchOptions& options) { options.features.of<WatchdogOptions>().place = ""; },
        [](LaunchOptions& options) { options.features.of<FailureJudgeOptions>().program = "/judge"; },
        [](LaunchOptions& options) { options.features.of<NodeCheckOptions>().asked = true; },
        [](LaunchOptions& options) {
            options.features.of<SharedLooksOptions>().shared = std::make_shared<SharedLooks>();
            options.features.of<HangWatchOptions>().limit = 1s;
        },
        [](LaunchOptions& options) { options.environment[kStuckVariable] = "60"; },
        // What nodes share is worth a word, unasked.
        [](LaunchOptions& options) {
            options.nnodes = 2;
            options.interpreter = "python3";
        }};
    int number = 0;
    for (const Ask& ask : kAsks) {
        CAPTURE(number++);
        LaunchOptions options = of_one_worker();
        ask(options);
        CHECK(made_of(options) == always + 1);
    }
    LaunchOptions without_workers;
    without_workers.features.of<LocalCacheOptions>().asked = true;
    CHECK(made_of(without_workers) == always);
}

TEST_CASE("features: the file of events is opened early, and is the feature's once there is one") {
    const TemporaryFolder folder;
    const std::string path = folder.path() / "%j.events";
    Opened open;
    open.options.of<EventLogOptions>().path = path;
    CHECK_FALSE(open());
    const std::string filled = folder.path() / "job-1.events";
    CHECK(std::filesystem::is_regular_file(filled));
    LaunchOptions options = of_one_worker();
    options.features = open.options;
    LauncherLog log(Verbosity::quiet);
    make_event_log({.options = options, .log = log});  // ends at once, and has written its lines by then
    CHECK_THAT(*read_small_file(filled, 1 << 20), Catch::Contains("options_read"));
    // The other copies have nothing left to write to.
    CHECK(open.options.of<EventLogOptions>().file->append("line\n").has_value());
}

TEST_CASE("features: what cannot be opened early is one line that names the flag, or the variable") {
    Opened of_file;
    of_file.options.of<EventLogOptions>().path = "/proc/none/events";
    CHECK_THAT(of_file().value_or(""), Catch::StartsWith("--events '/proc/none/events': "));
    of_file.starts_nothing = true;
    CHECK_FALSE(of_file());
    CHECK_FALSE(of_file.options.of<EventLogOptions>().file);
    Opened of_variable("port");
    of_variable.starts_nothing = true;
    CHECK_THAT(of_variable().value_or(""), Catch::StartsWith(std::string(kHealthPortVariable) + ": 'port'"));
}

TEST_CASE("features: the health port is that of the variable, and the site may say who reaches it") {
    Opened none, empty(""), open("8081"), closed("8081");
    closed.on_loopback = true;
    for (Opened* one : {&none, &empty, &open, &closed}) CHECK_FALSE((*one)());
    CHECK_FALSE(none.health().port);
    CHECK_FALSE(empty.health().port);
    CHECK(none.policies_read + empty.policies_read == 0);
    CHECK(open.health().port == 8081);
    CHECK(open.health().scope == ListenScope::any);
    CHECK(closed.health().port == 8081);
    CHECK(closed.health().scope == ListenScope::loopback);
}

TEST_CASE("features: the start of a detached job is one for all copies of the options") {
    Opened open;
    CHECK_FALSE(open.options.of<KnownJobOptions>().detached);
    CHECK_FALSE(open());
    REQUIRE(open.options.of<KnownJobOptions>().detached);
    const FeatureOptions copy = open.options;
    open.options.of<KnownJobOptions>().detached->folder = "/jobs/one";
    CHECK(copy.of<KnownJobOptions>().detached->folder == "/jobs/one");
}

TEST_CASE("features: workers get variables of those that were asked for only") {
    LaunchOptions options = of_one_worker();
    CHECK(late_variables(options).empty());
    options.features.of<LocalCacheOptions>().asked = true;
    options.features.of<WatchdogOptions>().place = "/tmp/timers";
    const auto late = late_variables(options);
    REQUIRE(late.size() == 2);
    CHECK(late[0].added.unless_set.contains("TRITON_CACHE_DIR"));
    CHECK(late[0].added.over.empty());
    CHECK(late[1].when == "/tmp/timers, or a new pipe where another launcher reads that one");
    CHECK(late[1].added.over.contains(kTimerFileVariable));
}

}  // namespace ddprun
