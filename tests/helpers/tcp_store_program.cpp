// Our store client, for tests against somebody else's server: does every verb once on the store at
// 127.0.0.1:PORT and prints the dialect that was found. Exits with 1 and a line if an answer is wrong.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rendezvous/base/error.hpp"
#include "rendezvous/store/tcp_store.hpp"

namespace {

void expect(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "wrong: %s\n", what);
    std::exit(1);
}

bool times_out(ddprun::TcpStore& store) {
    try {
        store.wait({"never"}, std::chrono::milliseconds(50));
    } catch (const boost::system::system_error& error) {
        return error.code() == ddprun::Errc::timed_out;
    }
    return false;
}

void use(ddprun::TcpStore& store) {
    const std::chrono::seconds limit(30);
    const std::string large(std::size_t{1} << 20, 'v');
    store.set("theirs/large", large);
    expect(store.get("theirs/large", limit) == large, "a large value");
    store.set("theirs/empty", "");
    expect(store.get("theirs/empty", limit).empty(), "an empty value");
    expect(store.add("theirs/n", 5) == 5, "add to a missing key");
    expect(store.add("theirs/n", -7) == -2, "add of a negative number");
    expect(store.get("theirs/n", limit) == "-2", "a number as text");
    expect(store.compare_set("theirs/c", "", "one") == "one", "compare_set of a missing key");
    expect(store.compare_set("theirs/c", "two", "three") == "one", "compare_set that differs");
    expect(store.compare_set("theirs/c", "one", "three") == "three", "compare_set that is equal");
    expect(store.check_keys({"theirs/c", "theirs/n"}), "check of present keys");
    expect(!store.check_keys({"theirs/c", "never"}), "check of a missing key");
    expect(times_out(store), "a wait that times out");
    expect(store.add("theirs/n", 0) == -2, "the store after a timed-out wait");
    store.wait({"theirs/c", "theirs/n"}, limit);
    expect(store.erase("theirs/c"), "erase of a present key");
    expect(!store.erase("theirs/c"), "erase of a missing key");
    store.set("theirs/done", "yes");
    store.get("theirs/done", limit);
}

}  // namespace

int main(int argc, char** argv) {
    auto port = argc == 2 ? ddprun::parse_port(argv[1]) : std::nullopt;
    if (!port) {
        std::fprintf(stderr, "usage: tcp_store_program PORT\n");
        return 2;
    }
    ddprun::TcpStore store({"127.0.0.1", *port}, std::chrono::seconds(30));
    use(store);
    std::puts(store.dialect() == ddprun::Dialect::legacy ? "legacy" : "modern");
    return 0;
}
