#include "launcher/jobs/job_control.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <optional>
#include <thread>

#include "rendezvous/system/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// A launcher's control socket in a folder of its own, served by a thread.
class ControlFixture {
  public:
    explicit ControlFixture(milliseconds timeout = kHangGuard) {
        serve_job_control(context_.get_executor(), listen_job_control(folder_.path()),
                          {.status = [] { return AgentStatus{.state = "running", .job_id = "none-1f"}; },
                           .effect_of =
                               [](int signal) {
                                   return signal == SIGUSR1 ? SignalEffect{.refusal = "not this one"}
                                                            : SignalEffect{.ends_job = signal == SIGTERM};
                               },
                           .deliver = [this](int signal) { delivered_ = signal; }},
                          timeout);
        thread_ = std::thread([this] { context_.run(); });
    }
    ~ControlFixture() {
        context_.stop();
        thread_.join();
    }

    const std::filesystem::path& folder() const { return folder_.path(); }
    ControlReply ask(const ControlRequest& request) const { return ask_job(folder_.path(), request); }
    int delivered() const { return delivered_; }

    OwnedDescriptor connect() const {
        const JobControlAddress address(folder_.path());
        OwnedDescriptor socket = make_control_socket();
        REQUIRE(::connect(socket.get(), address.get(), JobControlAddress::size()) == 0);
        return socket;
    }

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
    CHECK(launcher.ask(StatusRequest{}).status->job_id == "none-1f");
    CHECK(launcher.ask(SignalRequest{SIGUSR1}) == ControlReply{.error = "not this one"});
    CHECK(launcher.delivered() == 0);
    CHECK(launcher.ask(SignalRequest{SIGUSR2}) == ControlReply{});
    CHECK(launcher.ask(SignalRequest{SIGTERM}) == ControlReply{.ends_job = true});
    // Whatever is asked next is answered behind the delivery.
    CHECK(launcher.ask(StatusRequest{}).error.empty());
    CHECK(launcher.delivered() == SIGTERM);
}

TEST_CASE("control: hostile clients disturb nobody") {
    ControlFixture launcher;
    const std::string long_line(100 * kMaxControlRequest, 'x');
    for (const std::string& text :
         {std::string("\n"), std::string("\0\n", 2), std::string("GET / HTTP/1.1\n"),
          std::string(200, '[') + "\n", long_line, long_line + "\n",
          std::string("{\"version\":1,\"request\":\"signal\"}\n")}) {
        const OwnedDescriptor client = launcher.connect();
        send_all(client.get(), text);
        const std::string reply = rest_of(client.get());
        if (!reply.empty())
            CHECK_FALSE(parse_control_reply(reply.substr(0, reply.size() - 1))->error.empty());
        CHECK(launcher.ask(StatusRequest{}).error.empty());
    }
    // Half a request and gone; a request whose answer nobody reads.
    send_all(launcher.connect().get(), "{\"version\"");
    send_all(launcher.connect().get(), to_line(ControlRequest(StatusRequest{})));
    CHECK(launcher.ask(StatusRequest{}).error.empty());
    CHECK(launcher.delivered() == 0);
}

TEST_CASE("control: only one request of a connection is answered") {
    ControlFixture launcher;
    const OwnedDescriptor client = launcher.connect();
    send_all(client.get(), to_line(ControlRequest(StatusRequest{})));
    const std::string reply = rest_of(client.get());
    CHECK(std::count(reply.begin(), reply.end(), '\n') == 1);
}

TEST_CASE("control: silent clients are sent away, and the others' turn comes") {
    ControlFixture launcher(milliseconds(50));
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < 3 * kMaxControlClients; ++i) silent.push_back(launcher.connect());
    CHECK(launcher.ask(StatusRequest{}).error.empty());
    for (const OwnedDescriptor& client : silent) CHECK(rest_of(client.get()).empty());
}

TEST_CASE("control: while as many wait as may be, a further one is not taken in") {
    ControlFixture launcher;
    std::vector<OwnedDescriptor> silent;
    for (std::size_t i = 0; i < kMaxControlClients; ++i) silent.push_back(launcher.connect());
    try {
        ask_job(launcher.folder(), StatusRequest{}, milliseconds(100));
        FAIL("was answered");
    } catch (const Error& error) {
        CHECK(error.code() == make_error_code(Errc::timed_out));
    }
    silent.pop_back();
    CHECK(launcher.ask(StatusRequest{}).error.empty());
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
        send_all(client.get(), to_line(ControlRequest(SignalRequest{SIGTERM})));
        reply = rest_of(client.get());
    }).join();
    CHECK(reply.empty());
    CHECK(launcher.ask(StatusRequest{}).error.empty());
    CHECK(launcher.delivered() == 0);
}

TEST_CASE("control: the end of the launcher is seen by whoever waits") {
    std::optional<ControlFixture> launcher(std::in_place);
    const OwnedDescriptor client = launcher->connect();
    CHECK(launcher->ask(StatusRequest{}).error.empty());
    launcher.reset();
    CHECK(rest_of(client.get()).empty());
}

TEST_CASE("control: a launcher that is gone or says nonsense is an error") {
    TemporaryFolder folder;
    CHECK_THROWS_AS(ask_job(folder.path() / "missing", StatusRequest{}), Error);
    CHECK_THROWS_AS(ask_job(folder.path(), StatusRequest{}), Error);
    listen_job_control(folder.path()).reset();
    CHECK_THROWS_AS(ask_job(folder.path(), StatusRequest{}), Error);

    const std::vector<std::pair<std::string, Errc>> answers{
        {"", Errc::closed}, {"{\"version\":1", Errc::closed}, {"nonsense\n", Errc::protocol_violation}};
    for (const auto& [answer, code] : answers) {
        TemporaryFolder place;
        const OwnedDescriptor listener = listen_job_control(place.path());
        std::thread liar([&, text = answer] {
            pollfd waiting{listener.get(), POLLIN, 0};
            ::poll(&waiting, 1, -1);
            const OwnedDescriptor client(::accept(listener.get(), nullptr, nullptr));
            char buffer[kMaxControlRequest];
            [[maybe_unused]] const ssize_t ignored = ::recv(client.get(), buffer, sizeof buffer, 0);
            send_all(client.get(), text);
        });
        try {
            ask_job(place.path(), StatusRequest{});
            FAIL_CHECK("was understood: " << answer);
        } catch (const Error& error) {
            CHECK(error.code() == make_error_code(code));
        }
        liar.join();
    }
}

TEST_CASE("control: a folder may have a path longer than a socket's address") {
    TemporaryFolder folder;
    const std::filesystem::path deep = folder.path() / std::string(200, 'x');
    std::filesystem::create_directory(deep);
    const OwnedDescriptor listener = listen_job_control(deep);
    CHECK(std::filesystem::is_socket(deep / "control"));
}

}  // namespace ddprun
