#include "rendezvous/net/socket_owner.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "rendezvous/net/socket.hpp"
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

    explicit OwnerQuestion(ListenScope scope) : acceptor(listen_tcp(context.get_executor(), scope, 0)) {}
    OwnedDescriptor call(const char* host) {
        return OwnedDescriptor(connect_tcp({host, acceptor.local_endpoint().port()}, kHangGuard));
    }
    tcp::socket take() {
        acceptor.non_blocking(false);
        return acceptor.accept();
    }
};

}  // namespace

TEST_CASE("the owner of a connection over loopback is told, whichever kind of socket it came to") {
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
    OwnerQuestion question(ListenScope::loopback);
    OwnedDescriptor caller = question.call("127.0.0.1");
    REQUIRE(::send(caller.get(), "set", 3, MSG_NOSIGNAL) == 3);
    const tcp::socket taken = question.take();
    caller.reset();
    CHECK(question.owners.of(taken).kind == Kind::closed);
}

TEST_CASE("a connection of another user is that user's, not of who runs the test") {
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
