#include "rendezvous/net/socket_owner.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/listen.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/other_user.hpp"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;
using Kind = ConnectionOwner::Kind;

struct OwnerQuestion {
    boost::asio::io_context context;
    tcp::acceptor acceptor;
    ConnectionOwners owners;

    explicit OwnerQuestion(ListenScope scope, SocketQuestion ask = ask_kernel())
        : acceptor(listen_tcp(context.get_executor(), scope, 0)), owners(std::move(ask)) {}
    OwnedDescriptor call(const char* host) {
        return OwnedDescriptor(connect_tcp({host, acceptor.local_endpoint().port()}, kHangGuard));
    }
    tcp::socket take() {
        acceptor.non_blocking(false);
        return acceptor.accept();
    }
};

// Kernels without the module, as micro virtual machines have them, do not.
bool kernel_tells_owners() {
    OwnerQuestion question(ListenScope::loopback);
    const OwnedDescriptor caller = question.call("127.0.0.1");
    if (question.owners.of(question.take()).kind != Kind::untold) return true;
    WARN("skipped: this kernel does not tell whose a connection is (no module tcp_diag)");
    return false;
}

}  // namespace

TEST_CASE("the owner of a connection over loopback is told, whichever kind of socket it came to") {
    if (!kernel_tells_owners()) return;
    for (const ListenScope scope : {ListenScope::loopback, ListenScope::any}) {
        OwnerQuestion question(scope);
        const OwnedDescriptor caller = question.call("127.0.0.1");
        const tcp::socket taken = question.take();
        const ConnectionOwner owner = question.owners.of(taken);
        CHECK(owner.kind == Kind::user);
        CHECK(owner.uid == ::geteuid());
    }
}

TEST_CASE("the owner of a connection over IPv6 is told") {
    if (!kernel_tells_owners()) return;
    OwnerQuestion question(ListenScope::any);
    if (question.acceptor.local_endpoint().protocol() == tcp::v4()) {
        WARN("skipped: no IPv6 here");
        return;
    }
    const OwnedDescriptor caller = question.call("::1");
    const ConnectionOwner owner = question.owners.of(question.take());
    CHECK(owner.kind == Kind::user);
    CHECK(owner.uid == ::geteuid());
}

TEST_CASE("a connection whose process has closed it is nobody's, and not root's") {
    if (!kernel_tells_owners()) return;
    OwnerQuestion question(ListenScope::loopback);
    OwnedDescriptor caller = question.call("127.0.0.1");
    REQUIRE(::send(caller.get(), "set", 3, MSG_NOSIGNAL) == 3);
    const tcp::socket taken = question.take();
    caller.reset();
    CHECK(question.owners.of(taken).kind == Kind::closed);
}

TEST_CASE("a kernel that knows no socket at all tells nothing of a connection's owner") {
    int asked_of_listeners = 0;
    const auto knows_none = [&](const tcp::endpoint&, const tcp::endpoint& peer) {
        if (peer.port() == 0) ++asked_of_listeners;
        return SocketAnswer{SocketAnswer::Kind::absent};
    };
    OwnerQuestion question(ListenScope::loopback, knows_none);
    const OwnedDescriptor caller = question.call("127.0.0.1");
    const tcp::socket taken = question.take();
    CHECK(question.owners.of(taken).kind == Kind::untold);
    CHECK(question.owners.of(taken).kind == Kind::untold);
    CHECK(asked_of_listeners == 1);
}

TEST_CASE("a kernel that knows the listener of the one who asks is believed that nobody has a connection") {
    const auto knows_listeners = [](const tcp::endpoint&, const tcp::endpoint& peer) {
        const bool listens = peer.port() == 0;
        return SocketAnswer{listens ? SocketAnswer::Kind::unattached : SocketAnswer::Kind::absent};
    };
    OwnerQuestion question(ListenScope::loopback, knows_listeners);
    const OwnedDescriptor caller = question.call("127.0.0.1");
    CHECK(question.owners.of(question.take()).kind == Kind::closed);
}

TEST_CASE("the kernel knows the listener of the one who asks, or no socket at all") {
    using Answer = SocketAnswer::Kind;
    OwnerQuestion question(ListenScope::loopback);
    const OwnedDescriptor caller = question.call("127.0.0.1");
    const bool knows_connections = question.owners.of(question.take()).kind == Kind::user;
    const SocketQuestion ask = ask_kernel();
    const Answer listener = ask(question.acceptor.local_endpoint(), tcp::endpoint(tcp::v4(), 0)).kind;
    CHECK((listener == Answer::held) == knows_connections);
}

TEST_CASE("a connection of another user is that user's, not of who runs the test") {
    if (!kernel_tells_owners()) return;
    if (!can_be_other_user()) {
        WARN("skipped: not root, so nobody else can be had");
        return;
    }
    OwnerQuestion question(ListenScope::loopback);
    int wait[2];
    REQUIRE(::pipe(wait) == 0);
    const OwnedDescriptor until(wait[0]);
    OwnedDescriptor release(wait[1]);
    const std::uint16_t port = question.acceptor.local_endpoint().port();
    const pid_t child = ::fork();
    if (child == 0) {
        release.reset();
        if (::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) ::_exit(1);
        const OwnedDescriptor caller(connect_tcp({"127.0.0.1", port}, kHangGuard));
        char byte = 0;
        ::_exit(::read(until.get(), &byte, 1) == 0 ? 0 : 1);
    }
    const ConnectionOwner owner = question.owners.of(question.take());
    release.reset();
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(owner.kind == Kind::user);
    CHECK(owner.uid == kOtherUser);
}

}  // namespace ddprun
