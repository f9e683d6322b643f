#include "launcher/output/console_writer.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// More than any pipe or socket takes at once.
constexpr std::size_t kMuch = 8 << 20;

// As in the pump's thread.
class BrokenPipeBlocked {
  public:
    BrokenPipeBlocked() {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    }
    BrokenPipeBlocked(const BrokenPipeBlocked&) = delete;
    BrokenPipeBlocked& operator=(const BrokenPipeBlocked&) = delete;
    ~BrokenPipeBlocked() {
        const timespec now{};
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGPIPE);
        ::sigtimedwait(&signals, nullptr, &now);
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    sigset_t before_;
};

ConsoleEnds socket_console() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    return {OwnedDescriptor(fds[0]), OwnedDescriptor(fds[1])};
}

ConsoleEnds console_of_kind(const std::string& kind) {
    return kind == "pipe" ? pipe_console() : kind == "socket" ? socket_console() : terminal_console();
}

std::string read_some(int fd) {
    std::string buffer(65536, '\0');
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    buffer.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return buffer;
}

}  // namespace

TEST_CASE("a console that takes nothing never blocks the writer, and gets everything once it is read") {
    const std::string kind = GENERATE("pipe", "socket", "terminal");
    CAPTURE(kind);
    ConsoleEnds ends = console_of_kind(kind);
    ConsoleWriter writer(ends.writer.get());
    CHECK(writer.is_terminal() == (kind == "terminal"));
    const std::size_t size = kind == "terminal" ? kMuch / 32 : kMuch;
    std::string given;
    for (int i = 0; given.size() < size; ++i) given += "line " + std::to_string(i) + "\n";
    writer.write(std::string_view(given).substr(0, size / 2));
    CHECK(writer.blocked());
    writer.write(std::string_view(given).substr(size / 2));
    CHECK(writer.blocked());
    std::string taken;
    while (taken.size() < given.size()) {
        taken += read_some(ends.reader.get());
        writer.flush();
    }
    CHECK(taken == given);
    CHECK_FALSE(writer.blocked());
    CHECK(writer.buffer().empty());
    CHECK(writer.written() == given.size());
}

TEST_CASE("the others who have the stream do not find it non-blocking") {
    const std::string kind = GENERATE("pipe", "socket", "terminal");
    ConsoleEnds ends = console_of_kind(kind);
    ConsoleWriter writer(ends.writer.get());
    writer.write("x\n");
    CHECK((::fcntl(ends.writer.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("when nobody reads any more everything is thrown away") {
    const std::string kind = GENERATE("pipe", "socket", "terminal");
    CAPTURE(kind);
    BrokenPipeBlocked blocked;
    ConsoleEnds ends = console_of_kind(kind);
    ConsoleWriter writer(ends.writer.get());
    writer.write("heard\n");
    CHECK_FALSE(writer.closed());
    ends.reader.reset();
    writer.write("unheard\n");
    CHECK(writer.closed());
    writer.write(std::string(kMuch, 'x'));
    writer.buffer() += "more";
    writer.flush();
    CHECK_FALSE(writer.blocked());
    CHECK(writer.dropped() == 0);
}

TEST_CASE("a launcher without the stream writes to nobody") {
    ConsoleWriter writer(-1);
    writer.write("unheard\n");
    CHECK(writer.closed());
    CHECK_FALSE(writer.blocked());
}

TEST_CASE("a file is written where its owners stand, and a full disk loses only what does not fit") {
    TemporaryFolder folder;
    const std::string path = folder.file("file", "before\n");
    OwnedDescriptor fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    ConsoleWriter writer(fd.get());
    writer.write("one\n");
    REQUIRE(::write(fd.get(), "another's\n", 10) == 10);
    writer.write("two\n");
    std::ifstream file(path);
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "before\none\nanother's\ntwo\n");

    OwnedDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ConsoleWriter full_writer(full.get());
    full_writer.write("12345");
    CHECK_FALSE(full_writer.closed());
    CHECK_FALSE(full_writer.blocked());
    CHECK(full_writer.dropped() == 5);
}

TEST_CASE("the width of a terminal, and where there is none") {
    ConsoleEnds terminal = terminal_console();
    CHECK(ConsoleWriter(terminal.writer.get()).columns() == 100);
    ConsoleEnds pipe = pipe_console();
    CHECK(ConsoleWriter(pipe.writer.get()).columns() == 80);
}

}  // namespace ddprun
