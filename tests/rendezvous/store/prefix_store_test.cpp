#include "rendezvous/store/prefix_store.hpp"

#include <memory>

#include "rendezvous/system/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/memory_store.hpp"

namespace ddprun {
namespace {}  // namespace

TEST_CASE("prefix store: every verb works under the prefix, and only there") {
    auto data = std::make_shared<MemoryStoreData>();
    MemoryStore base(data);
    PrefixStore store("p", base);
    base.set("k", "outside");
    store.set("k", "v");
    CHECK(base.get("p/k", kHangGuard) == "v");
    CHECK(store.get("k", kHangGuard) == "v");
    CHECK(store.add("n", 2) == 2);
    CHECK(base.get("p/n", kHangGuard) == "2");
    CHECK(store.compare_set("k", "v", "w") == "w");
    CHECK(base.get("p/k", kHangGuard) == "w");
    CHECK(store.check_keys({"k", "n"}));
    CHECK_FALSE(store.check_keys({"k", "p/k"}));
    store.wait({"k", "n"}, kHangGuard);
    CHECK_THROWS_AS(store.wait({"other"}, std::chrono::milliseconds(1)), boost::system::system_error);
    CHECK(store.erase("k"));
    CHECK_FALSE(base.check_keys({"p/k"}));
    CHECK(base.get("k", kHangGuard) == "outside");
}

TEST_CASE("prefix store: nested as in PyTorch, the inner prefix first") {
    auto data = std::make_shared<MemoryStoreData>();
    MemoryStore base(data);
    PrefixStore inner("c", base);
    PrefixStore outer("a/b", inner);
    outer.set("key", "v");
    CHECK(base.get("c/a/b/key", kHangGuard) == "v");
    PrefixStore unnamed("", base);
    unnamed.set("key", "w");
    CHECK(base.get("/key", kHangGuard) == "w");
}

}  // namespace ddprun
