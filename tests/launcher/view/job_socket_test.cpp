#include "launcher/view/job_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "launcher/view/http_server.hpp"
#include "launcher/view/job_stream.hpp"
#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr const char* kStatusRequest = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A launcher's control socket in a folder of its own, served by a thread.
class ControlFixture {
  public:
    explicit ControlFixture(milliseconds timeout = kHangGuard) {
        serve_unix(context_.get_executor(), listen_job_socket(folder_.path()),
                   {.status = [] { return AgentStatus{.state = "running"}; },
                    .job =
                        [](const auto& done) {
                            JobView view;
                            view.job_id = "none-1f";
                            done(view);
                        },
                    .effect_of =
                        [](int signal) {
                            return signal == SIGUSR1 ? SignalEffect{.refusal = "not this one"}
                                                     : SignalEffect{.ends_job = signal == SIGTERM};
                        },
                    .deliver = [this](int signal) { delivered_ = signal; }},
                   {.timeout = timeout});
        thread_ = std::thread([this] { context_.run(); });
    }
    ~ControlFixture() {
        context_.stop();
        thread_.join();
    }

    const std::filesystem::path& folder() const { return folder_.path(); }
    SignalEffect send(int signal) const { return send_signal(folder_.path(), signal); }
    bool answers() const { return ask_status(folder_.path()).job_id == "none-1f"; }
    int delivered() const { return delivered_; }

    OwnedDescriptor connect() const { return call_job(folder_.path(), kHangGuard); }

  private:
    TemporaryFolder folder_;
    boost::asio::io_context context_{1};
    std::atomic<int> delivered_ = 0;
    std::thread thread_;
};

// What comes until the other end closes; a reset is an end, too.
std::string rest_of(int socket) {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
        text.append(buffer, static_cast<std::size_t>(count));
    return text;
}

void send_all(int socket, const std::string& text) { ::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

}  // namespace

TEST_CASE("control: questions are answered and signals delivered") {
    ControlFixture launcher;
    CHECK(launcher.answers());
    CHECK(launcher.send(SIGUSR1) == SignalEffect{.refusal = "not this one"});
    CHECK(launcher.delivered() == 0);
    CHECK(launcher.send(SIGUSR2) == SignalEffect{});
    CHECK(launcher.send(SIGTERM) == SignalEffect{.ends_job = true});
    // Whatever is asked next is answered behind the delivery.
    CHECK(launcher.answers());
    CHECK(launcher.delivered() == SIGTERM);
}

TEST_CASE("control: all callers get an answer that has to be gathered, so many at one time") {
    constexpr std::size_t kMost = ServerLimits::kMaxConnections;
    TemporaryFolder folder;
    boost::asio::io_context context{1};
    std::vector<std::function<void(const JobView&)>> asked;
    serve_unix(context.get_executor(), listen_job_socket(folder.path()),
               {.status = [] { return AgentStatus{}; },
                .job = [&asked](auto done) { asked.push_back(std::move(done)); }},
               {.timeout = kHangGuard});
    std::vector<OwnedDescriptor> callers;
    for (std::size_t i = 0; i < 3 * kMost; ++i) {
        callers.push_back(call_job(folder.path(), kHangGuard));
        send_all(callers.back().get(), kStatusRequest);
    }
    for (std::size_t answered = 0; answered < callers.size();) {
        while (asked.empty()) REQUIRE(context.run_one_for(kHangGuard) == 1);
        context.poll();
        CHECK(asked.size() <= kMost + 1);  // one may be on its way in
        answered += asked.size();
        for (const auto& done : std::exchange(asked, {})) done(JobView{});
    }
    context.poll();
    for (const OwnedDescriptor& caller : callers) CHECK(rest_of(caller.get()).starts_with("HTTP/1.1 200 "));
}

namespace {

// A launcher whose streams the test holds.
class StreamingFixture {
  public:
    StreamingFixture() {
        serve_unix(context_.get_executor(), listen_job_socket(folder_.path()),
                   {.status = [] { return AgentStatus{}; },
                    .stream =
                        [this](const StreamTerms& terms) {
                            const auto stream = std::make_shared<JobStream>(
                                terms, [](int, const KeptQuestion&, const auto&) {},
                                [](milliseconds, const auto&) {});
                            streams_.push_back(stream);
                            return stream;
                        }},
                   {.timeout = kHangGuard});
        thread_ = std::thread([this] { context_.run(); });
    }
    ~StreamingFixture() {
        on_thread([this] {
            for (const auto& stream : streams_) stream->end({});
        });
        context_.stop();
        thread_.join();
    }

    StreamReader read() const { return {folder_.path(), {.kind = "output", .rank = 3, .follows = true}}; }
    // Runs this on the launcher's thread, and waits for it.
    void on_thread(const std::function<void()>& work) {
        std::packaged_task<void()> task(work);
        boost::asio::post(context_, [&task] { task(); });
        task.get_future().get();
    }
    JobStream& stream(std::size_t number) { return *streams_.at(number); }

  private:
    TemporaryFolder folder_;
    boost::asio::io_context context_{1};
    std::vector<std::shared_ptr<JobStream>> streams_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("control: an answer that goes on comes line by line, to the launcher's last word") {
    StreamingFixture launcher;
    StreamReader reader = launcher.read();
    const StreamLine large{.node = 1, .blocks = {{3, "stdout", 7, std::string(5'000'000, 'x')}}};
    launcher.on_thread([&launcher, &large] {
        CHECK(launcher.stream(0).terms() == StreamTerms{"output", 3, true});
        launcher.stream(0).tell({.trouble = "a\nb"});
        launcher.stream(0).tell(large);
    });
    CHECK(reader.next() == StreamLine{.trouble = "a\nb"});
    CHECK(reader.next() == large);
    launcher.on_thread([&launcher] { launcher.stream(0).end({.exit_code = 3}); });
    CHECK(reader.next() == StreamLine{.exit_code = 3});
    CHECK_FALSE(reader.next());
}

TEST_CASE("control: of a client that is gone the launcher holds nothing, and so many may follow") {
    StreamingFixture launcher;
    const auto is_over = [&launcher](std::size_t number) {
        bool over = false;
        launcher.on_thread([&] { over = launcher.stream(number).is_over(); });
        return over;
    };
    std::vector<StreamReader> readers;
    for (std::size_t i = 0; i < ServerLimits::kMaxStreams; ++i) readers.push_back(launcher.read());
    CHECK_THROWS_WITH(launcher.read(), Catch::Contains("takes no more"));
    readers.erase(readers.begin());
    while (!is_over(0)) {
    }
    CHECK_FALSE(is_over(1));
    readers.push_back(launcher.read());
}

TEST_CASE("control: hostile clients disturb nobody") {
    ControlFixture launcher;
    const std::string long_line(100 * ServerLimits::kMaxRequest, 'x');
    for (const std::string& text :
         {std::string("\n"), std::string("\0\n", 2), std::string("GET / HTTP/1.1\r\n\r\n"),
          std::string("{\"version\":1,\"request\":\"status\"}\n"), long_line, long_line + "\r\n\r\n",
          std::string("POST /signal?name=99 HTTP/1.1\r\n\r\n"),
          std::string("POST /status HTTP/1.1\r\n\r\n")}) {
        CAPTURE(text.substr(0, 80));
        const OwnedDescriptor client = launcher.connect();
        send_all(client.get(), text);
        ::shutdown(client.get(), SHUT_WR);
        const std::string reply = rest_of(client.get());
        CHECK((reply.empty() || reply.starts_with("HTTP/1.1 4")));
        CHECK(launcher.answers());
    }
    // Half a request and gone; a request whose answer nobody reads.
    send_all(launcher.connect().get(), "GET /sta");
    send_all(launcher.connect().get(), kStatusRequest);
    CHECK(launcher.answers());
    CHECK(launcher.delivered() == 0);
}

TEST_CASE("control: only one request of a connection is answered") {
    ControlFixture launcher;
    const OwnedDescriptor client = launcher.connect();
    send_all(client.get(), std::string(kStatusRequest) + kStatusRequest);
    const std::string reply = rest_of(client.get());
    CHECK(reply.find("HTTP/1.1 200") != std::string::npos);
    CHECK(reply.find("HTTP/1.1 200") == reply.rfind("HTTP/1.1 200"));
}

TEST_CASE("control: silent clients are sent away") {
    ControlFixture launcher(milliseconds(50));
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < 3 * ServerLimits::kMaxConnections; ++i) silent.push_back(launcher.connect());
    for (const OwnedDescriptor& client : silent) CHECK(rest_of(client.get()).empty());
}

TEST_CASE("control: whoever holds all connections open keeps nobody out") {
    ControlFixture launcher;
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < ServerLimits::kMaxConnections; ++i) silent.push_back(launcher.connect());
    CHECK(launcher.answers());
    CHECK(rest_of(silent.front().get()).empty());
}

TEST_CASE("control: another user is not answered") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to be somebody else");
        return;
    }
    ControlFixture launcher;
    // Only to see that the socket itself refuses; a job's folder cannot be entered.
    ::chmod(launcher.folder().c_str(), 0755);
    ::chmod((launcher.folder() / "control").c_str(), 0777);
    std::string reply = "none";
    std::thread([&] {
        // The system call, unlike the function of libc, changes this thread alone.
        REQUIRE(::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0);
        const OwnedDescriptor client = launcher.connect();
        send_all(client.get(), "POST /signal?name=SIGTERM HTTP/1.1\r\n\r\n");
        reply = rest_of(client.get());
    }).join();
    CHECK(reply.empty());
    CHECK(launcher.answers());
    CHECK(launcher.delivered() == 0);
}

TEST_CASE("control: the end of the launcher is seen by whoever waits") {
    std::optional<ControlFixture> launcher(std::in_place);
    const OwnedDescriptor client = launcher->connect();
    CHECK(launcher->answers());
    launcher.reset();
    CHECK(rest_of(client.get()).empty());
}

TEST_CASE("control: a launcher that is gone or says nonsense is an error") {
    TemporaryFolder folder;
    CHECK_THROWS_AS(ask_status(folder.path() / "missing"), Error);
    CHECK_THROWS_AS(ask_status(folder.path()), Error);
    listen_job_socket(folder.path()).reset();
    CHECK_THROWS_AS(ask_status(folder.path()), Error);

    const std::vector<std::pair<std::string, Errc>> answers{
        {"", Errc::closed},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"state\"", Errc::closed},
        {"HTTP/1.1 200 OK\r\nContent-Len", Errc::closed},
        {"nonsense\n", Errc::protocol_violation},
        {"{\"version\":1,\"error\":\"the request is no JSON object\"}\n", Errc::protocol_violation},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Errc::protocol_violation},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}", Errc::limit_exceeded}};
    for (const auto& [answer, code] : answers) {
        CAPTURE(answer);
        TemporaryFolder place;
        const OwnedDescriptor listener = listen_job_socket(place.path());
        std::thread liar([&, text = answer] {
            pollfd waiting{listener.get(), POLLIN, 0};
            ::poll(&waiting, 1, -1);
            const OwnedDescriptor client(::accept(listener.get(), nullptr, nullptr));
            char buffer[ServerLimits::kMaxRequest];
            [[maybe_unused]] const ssize_t ignored = ::recv(client.get(), buffer, sizeof buffer, 0);
            send_all(client.get(), text);
        });
        try {
            ask_status(place.path());
            FAIL_CHECK("was understood: " << answer);
        } catch (const Error& error) {
            CHECK(error.code() == make_error_code(code));
        }
        liar.join();
    }
}

TEST_CASE("control: a launcher that does not answer in time is an error") {
    TemporaryFolder folder;
    const OwnedDescriptor listener = listen_job_socket(folder.path());
    try {
        ask_status(folder.path(), milliseconds(50));
        FAIL("was answered");
    } catch (const Error& error) {
        CHECK(error.code() == make_error_code(Errc::timed_out));
    }
}

TEST_CASE("control: launchers of many jobs are asked side by side, and those that say nothing hold up none") {
    ControlFixture one, other;
    TemporaryFolder silent, missing;
    const OwnedDescriptor listener = listen_job_socket(silent.path());
    const auto views =
        ask_statuses({silent.path(), one.folder(), missing.path() / "x", silent.path(), other.folder()},
                     milliseconds(500));
    REQUIRE(views.size() == 5);
    CHECK((!views[0] && !views[2] && !views[3]));
    CHECK((views[1] && views[1]->job_id == "none-1f" && views[4] && views[4]->job_id == "none-1f"));
    CHECK(ask_statuses({}, kHangGuard).empty());
    // Nothing is waited for where all have answered.
    CHECK(ask_statuses({one.folder()}, kHangGuard).at(0));
}

TEST_CASE("control: a folder may have a path longer than a socket's address") {
    TemporaryFolder folder;
    const std::filesystem::path deep = folder.path() / std::string(200, 'x');
    std::filesystem::create_directory(deep);
    const OwnedDescriptor listener = listen_job_socket(deep);
    CHECK(std::filesystem::is_socket(deep / "control"));
    CHECK(std::filesystem::status(deep / "control").permissions() == std::filesystem::perms(0600));
}

}  // namespace ddprun
