// SPDX-License-Identifier: Apache-2.0
// rlxrun as its users meet it: exit codes and messages. On the null device, which copies, so that
// every machine runs this.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "runtime/base/output_file.h"
#include "runtime/include/rlx.h"
#include "tests/rlxrun/has_text.h"
#include "tests/support/bin_folder.h"
#include "tests/support/catch.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/program_laws.h"
#include "tools/npy/npy.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Outcome {
  int code = -1;
  std::string text;  // both streams
};

// `environment`: assignments before the command.
Outcome rlxrun(const std::string& arguments, const std::string& environment = {}) {
  // A Vulkan driver leaves memory behind when the loader unloads it, which a leak checker cannot
  // name any more.
  const std::string command = environment + " ASAN_OPTIONS=detect_leaks=0 " +
                              rlx::test::bin_folder() + "/rlxrun " + arguments + " 2>&1";
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> part;
  for (size_t count = 0; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    outcome.text.append(part.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// A folder with the fixture's plan and some arrays; gone afterwards.
class Workplace {
 public:
  Workplace() {
    std::string path = "/tmp/rlxrun_test_XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder_ = path;
    const std::vector<std::byte> plan = serialise(small_plan());
    REQUIRE(write_file(at("small.plan"), plan).ok());
    std::vector<float> x(64);
    std::iota(x.begin(), x.end(), 1.0f);
    write("x.npy", x);
    x[7] = 100;
    write("wrong.npy", x);
  }
  ~Workplace() { REQUIRE(std::system(("rm -rf " + folder_).c_str()) == 0); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }

  template <typename T>
  void write(const std::string& name, const std::vector<T>& values,
             npy::Element element = npy::Element::F32) const {
    const auto bytes = std::as_bytes(std::span(values));
    const npy::Array array{
        .element = element, .dims = {values.size()}, .data = {bytes.begin(), bytes.end()}};
    REQUIRE(npy::write_npy(at(name), array).ok());
  }

  // The entry "echo", which copies x to y.
  [[nodiscard]] Outcome echo(const std::string& arguments,
                             const std::string& environment = {}) const {
    return rlxrun(at("small.plan") + " --entry echo --device null " + arguments, environment);
  }

 private:
  std::string folder_;
};

void check_refused(const Outcome& outcome, int code, const std::string& part) {
  INFO(outcome.text);
  CHECK(outcome.code == code);
  CHECK(outcome.text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("rlxrun copies an input to an output and writes it") {
  const Workplace place;
  const Outcome outcome = place.echo("--inputs " + place.at("x.npy") + " --outputs " +
                                     place.at("out") + " --expected " + place.at("x.npy"));
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.text.find("expected y: matches") != std::string::npos);
  npy::Array x;
  npy::Array y;
  REQUIRE(npy::read_npy(place.at("x.npy"), x).ok());
  REQUIRE(npy::read_npy(place.at("out/y.npy"), y).ok());
  CHECK(x.data == y.data);
}

TEST_CASE("rlxrun says where a mismatch is and exits with 4") {
  const Workplace place;
  const Outcome outcome =
      place.echo("--inputs x=" + place.at("x.npy") + " --expected y=" + place.at("wrong.npy"));
  check_refused(outcome, 4, "worst at [7]: got 8, expected 100");
  check_refused(outcome, 4, "1 of 64 elements differ by more than the tolerance");
  CHECK(place
            .echo("--inputs x=" + place.at("x.npy") + " --expected y=" + place.at("wrong.npy") +
                  " --atol 92")
            .code == 0);
}

TEST_CASE("rlxrun refuses wrong usage with 1") {
  const Workplace place;
  check_refused(rlxrun(""), 1, "PLAN is required");
  check_refused(rlxrun("--no-such-flag"), 1, "--no-such-flag");
  check_refused(rlxrun(place.at("small.plan") + " --seeded --device null"), 1,
                "several entries, choose one with --entry: main, echo");
  check_refused(place.echo("--seeded --repeat 0"), 1, "--repeat");
  for (const char* option : {"--warmup", "-j", "--entry", "--target", "--top-k", "-n", "--outputs"})
    check_refused(place.echo(std::string("--seeded ") + option + " ''"), 1, ": the value is empty");
  check_refused(place.echo("--chat x --temperature nan"), 1, "--temperature: \"nan\" is no number");
  for (const char* none : {"0", "0.0", "1e-60"})
    check_refused(place.echo(std::string("--chat x --temperature 1 --top-p ") + none), 1,
                  "0 leaves no token");
  check_refused(place.echo("--seeded --pipeline-cache /"), 1, "\"/\" is a folder");
  check_refused(place.echo("--seeded --poison 256"), 1, "--poison");
  for (const char* tolerance : {"nan", "-1", "x", "1e-3x"})
    check_refused(place.echo(std::string("--seeded --rtol ") + tolerance), 1, "no number of 0 or");
  for (const char* budget : {"0", "-1", "0MB", "-2GiB"})
    check_refused(place.echo(std::string("--seeded --memory-budget ") + budget), 1, "above 0");
  check_refused(place.echo("--seeded --dim n=1 --dim n=2"), 1, "--dim gives \"n\" twice");
  for (const char* seed : {"18446744073709551616", "-9223372036854775809", "1.5", "0x1", "\"\""})
    check_refused(place.echo(std::string("--seeded --seed ") + seed), 1, "--seed");
  for (const char* seed : {"18446744073709551615", "9223372036854775808", "-1"})
    CHECK(place.echo(std::string("--seeded --seed ") + seed).code == 0);
  check_refused(place.echo("--seeded --dump-after x=y.npy"), 1, "STEP=FILE.npy");
  CHECK(rlxrun("--help").code == 0);
  CHECK(rlxrun("--version").code == 0);
}

TEST_CASE("rlxrun refuses flags of a run with those of a language model, and plans of none") {
  const Workplace place;
  const std::string plan = place.at("small.plan") + " --device null ";
  check_refused(rlxrun(plan + "--chat hi --entry echo"), 1, "--entry does not go with --chat");
  check_refused(rlxrun(plan + "--chat hi --seeded"), 1, "--seeded does not go with --chat");
  check_refused(rlxrun(plan + "--system hi"), 1, "--system needs --chat, -i or --prompt-ids");
  check_refused(rlxrun(plan + "--chat hi -i"), 1, "do not go together");
  check_refused(rlxrun(plan + "--chat hi --top-k 3"), 1, "--top-k needs a --temperature above 0");
  check_refused(rlxrun(plan + "--prompt-ids 1 --system hi"), 1, "which have no template");
  check_refused(rlxrun(plan + "--prompt-ids 1,x"), 1, "--prompt-ids");
  check_refused(rlxrun(plan + "-i --logits l.npy"), 1, "--logits does not go with -i");
  check_refused(rlxrun(plan + "--chat hi --cache none"), 1, "--cache");
  check_refused(rlxrun(plan + "--prompt-ids 1"), 2,
                "has none that takes one token as language models do (inputs ids i32[1,tokens]");
}

TEST_CASE("rlxrun refuses wrong inputs with 2, naming what was got and what was wanted") {
  const Workplace place;
  const std::string x = place.at("x.npy");
  check_refused(rlxrun("/no/such.plan"), 2, "/no/such.plan");
  check_refused(rlxrun(x), 2, "x.npy");
  check_refused(rlxrun(place.at("small.plan") + " --entry nothing --device null"), 2, "nothing");
  check_refused(place.echo("--inputs z=" + x), 2,
                "there is no input \"z\"; the inputs are: x f32[64]");
  check_refused(place.echo(""), 2, "no file gives these inputs: x f32[64]");
  check_refused(place.echo("--inputs x=" + x + " x=" + x), 2, "input \"x\" is given twice");
  check_refused(place.echo("--inputs x=" + place.at("none.npy")), 2, "none.npy\": No such file");
  check_refused(place.echo("--seed 3 --inputs " + x), 2, "the plan draws no random numbers");
  check_refused(place.echo("--seeded --expected q=" + x), 2,
                "there is no output \"q\"; the outputs are: y f32[64]");
  place.write("doubles.npy", std::vector<double>(64), npy::Element::F64);
  check_refused(place.echo("--inputs " + place.at("doubles.npy")), 2,
                "input \"x\": got f64[64], wanted f32[64]");
  place.write("short.npy", std::vector<float>(63));
  check_refused(place.echo("--inputs " + place.at("short.npy")), 2,
                "input \"x\": got f32[63], wanted f32[64]");
  std::ofstream(place.at("broken.npz")) << "no zip";
  check_refused(place.echo("--inputs " + place.at("broken.npz")), 2,
                "broken.npz: this is no .npz file");
  check_refused(place.echo("--seeded --dump-after 9=" + place.at("d.npy")), 2, "--dump-after 9");
}

TEST_CASE("rlxrun takes free symbols from the shapes of its inputs") {
  const Workplace work;
  REQUIRE(write_file(work.at("free.plan"), serialise(free_copies_plan())).ok());
  const auto write = [&](const std::string& name, std::vector<uint64_t> dims) {
    npy::Array array{.element = npy::Element::F32, .dims = std::move(dims), .data = {}};
    uint64_t count = 1;
    for (const uint64_t dim : array.dims) count *= dim;
    array.data.resize(count * 4);
    for (uint64_t i = 0; i < count; ++i) {
      const auto number = static_cast<float>(i);
      std::memcpy(array.data.data() + 4 * i, &number, sizeof number);
    }
    REQUIRE(npy::write_npy(work.at(name), array).ok());
  };
  write("x.npy", {2, 7});
  write("m9.npy", {2, 9});
  write("wide.npy", {2, 17});
  const std::string plan = work.at("free.plan") + " --device null --seeded ";
  const Outcome right =
      rlxrun(plan + "--inputs x=" + work.at("x.npy") + " --expected y=" + work.at("x.npy") +
             " --json --outputs " + work.at("out"));
  INFO(right.text);
  REQUIRE(right.code == 0);
  const nlohmann::json json = nlohmann::json::parse(right.text);
  CHECK(json["symbols"] == nlohmann::json({{"batch", 2}, {"seq", 7}}));
  CHECK(json["outputs"][2]["shape"] == nlohmann::json({14}));
  npy::Array l;
  REQUIRE(npy::read_npy(work.at("out/l.npy"), l).ok());
  CHECK(l.dims == std::vector<uint64_t>{14});

  const Outcome seeded = rlxrun(plan + "--dim seq=5 --dim batch=3");
  CHECK(seeded.code == 0);
  CHECK(has_text(seeded.text, "at batch = 3, seq = 5"));
  const Outcome two = rlxrun(plan + "--inputs x=" + work.at("x.npy") + " m=" + work.at("m9.npy"));
  CHECK(two.code == 2);
  CHECK(has_text(two.text, "disagree on symbol \"seq\""));
  const Outcome dim = rlxrun(plan + "--dim seq=6 --inputs x=" + work.at("x.npy"));
  CHECK(dim.code == 2);
  CHECK(has_text(dim.text, "--dim seq=6: the inputs have 7"));
  const Outcome wide = rlxrun(plan + "--inputs x=" + work.at("wide.npy"));
  CHECK(wide.code == 2);
  CHECK(has_text(wide.text, "has 17 at axis 1, which is symbol \"seq\", wanted 0 to 16"));
  CHECK(rlxrun(plan + "--dim seq=17").code == 2);
  CHECK(rlxrun(plan + "--dim heads=1").code == 2);
  CHECK(rlxrun(plan + "--dim seq").code == 1);
  const Outcome expected =
      rlxrun(plan + "--dim seq=9 --dim batch=2 --expected y=" + work.at("x.npy"));
  CHECK(expected.code == 2);
}

TEST_CASE("rlxrun tells unsuitable devices with 3 and missing room with 5") {
  const Workplace place;
  check_refused(rlxrun(place.at("small.plan") + " --entry echo --seeded --device toaster"), 3,
                "toaster");
  check_refused(place.echo("--seeded --memory-budget 10"), 5, "budget");
  check_refused(place.echo("--seeded --outputs " + place.at("x.npy") + "/out"), 5,
                "cannot create this folder");
  check_refused(place.echo("--seeded --trace /no/such/folder/trace.json"), 5,
                "/no/such/folder/trace.json");
}

TEST_CASE("rlxrun replaces no device, FIFO or link, whatever output is sent there") {
  const Workplace place;
  const std::string fifo = place.at("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::filesystem::create_symlink("real.json", place.at("link.json"));
  const std::string run = "--seeded --profile ";
  CHECK(place.echo(run + "--trace /dev/null --pipeline-cache /dev/null --dump-after 0:x=/dev/null")
            .code == 0);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(place.echo(run + "--trace " + place.at("link.json")).code == 0);
  CHECK(std::filesystem::is_symlink(place.at("link.json")));
  CHECK(std::filesystem::file_size(place.at("real.json")) > 0);
  check_refused(place.echo(run + "--trace /dev/full"), 5, "No space left");
  check_refused(place.echo(run + "--trace " + fifo), 5, "a FIFO that no process reads");
  check_refused(place.echo(run + "--outputs /dev/null"), 5, "/dev/null: cannot create this folder");
  check_refused(place.echo(run + "--dump-after 0:x=" + place.at("")), 5, "it names a folder");
  CHECK(std::filesystem::is_fifo(fifo));
  // 3 and 4: there is a reader before rlxrun asks, and an end of the file once it is done.
  const ShellResult read =
      shell("exec 3<>" + fifo + " 4<" + fifo + "; cat <&4 3>&- & " + bin_folder() + "/rlxrun " +
            place.at("small.plan") + " --entry echo --device null --seeded --profile --trace " +
            fifo + " >/dev/null 3>&- 4<&-; exec 3>&-; wait");
  CHECK(nlohmann::json::accept(read.text));
  const Outcome both = place.echo("--seeded --json --trace /dev/stdout");
  CHECK(both.code == 0);
  CHECK(both.text.find("traceEvents") != std::string::npos);
}

TEST_CASE("rlxrun is killed by no signal where outputs are cut off") {
  const Workplace place;
  const std::string run = bin_folder() + "/rlxrun " + place.at("small.plan") +
                          " --entry echo --device null --seeded --outputs " + place.at("out");
  const ShellResult limited = shell("ulimit -f 0; " + run + " 2>&1 | cat");
  CHECK(limited.text.find("File too large") != std::string::npos);
  const ShellResult gone = shell("{ " + run + "; echo $? >&2; } 2>&1 >/dev/null | cat");
  CHECK(gone.text == "0\n");
  const ShellResult broken =
      shell("{ sleep 0.2; " + bin_folder() + "/rlxrun --help 2>&3; echo $? >&3; } 3>&1 | true");
  CHECK(broken.code == 0);
  CHECK_FALSE(std::filesystem::exists(place.at("out/y.npy.partial")));
}

TEST_CASE("rlxrun ends with 5 where it cannot print") {
  const Workplace place;
  const std::string program = bin_folder() + "/rlxrun ";
  check_unwritable_output(program + "--help");
  check_unwritable_output(program + "--version");
  check_unwritable_output(program + "--list-devices --json");
  const std::string run = place.at("small.plan") + " --entry echo --device null --seeded";
  check_unwritable_output(program + run);
  check_unwritable_output(program + run + " --json");
  // A closed standard output is no place for a file: the outputs are what they would be.
  CHECK(shell(program + run + " --outputs " + place.at("out") + " >&- 2>&-").code == 5);
  npy::Array y;
  CHECK(npy::read_npy(place.at("out/y.npy"), y).ok());
  // What went wrong before stays the verdict.
  CHECK(shell(program + "/no/such.plan >/dev/full 2>&1").code == 2);
}

TEST_CASE("rlxrun ends with 5 where memory runs out") {
  const Workplace place;
  const std::string program = bin_folder() + "/rlxrun ";
  check_failing_allocations(program + "--version");
  check_failing_allocations(program + "--help");
  check_failing_allocations(program + place.at("small.plan") +
                            " --entry echo --device null --seeded --json --outputs " +
                            place.at("out") + " >/dev/null && echo done");
}

TEST_CASE("rlxrun reads regular files only") {
  const Workplace place;
  const std::string fifo = place.at("fifo.npy");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  check_refused(place.echo("--inputs " + fifo), 2, "it is no regular file");
  check_refused(place.echo("--seeded --expected " + fifo), 2, "it is no regular file");
  check_refused(rlxrun(fifo), 2, "it is no regular file");
  check_refused(place.echo("--inputs x=/dev/zero"), 2, "it is no regular file");
  check_refused(rlxrun("/dev/zero"), 2, "it is no regular file");
}

TEST_CASE("rlxrun reports as JSON and as a trace") {
  const Workplace place;
  const Outcome outcome = place.echo("--seeded --json --repeat 5 --warmup 1 --profile --trace " +
                                     place.at("trace.json") + " --poison 165");
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.text);
  CHECK(report["entry"]["name"] == "echo");
  CHECK(report["timing"]["repeat"] == 5);
  CHECK(report["timing"]["wall_us"]["min"] <= report["timing"]["wall_us"]["p99"]);
  CHECK(report["outputs"][0]["shape"][0] == 64);
  CHECK(report["profile"].size() == 1);
  std::ifstream stream(place.at("trace.json"));
  const nlohmann::json trace = nlohmann::json::parse(stream);
  CHECK(trace["traceEvents"].size() == 3);
}

TEST_CASE("rlxrun dumps the value that a step begins") {
  const Workplace place;
  const Outcome outcome =
      rlxrun(place.at("small.plan") + " --entry main --device null --inputs " + place.at("x.npy") +
             " --dump-after 0=" + place.at("a.npy") + " --dump-after 0:x=" + place.at("x2.npy"));
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  npy::Array x;
  npy::Array a;
  REQUIRE(npy::read_npy(place.at("x.npy"), x).ok());
  REQUIRE(npy::read_npy(place.at("a.npy"), a).ok());
  CHECK(x.data == a.data);
}

TEST_CASE("rlxrun names where the first NaN and the first infinity come from") {
  const Workplace place;
  const std::string quiet_nan = {'\0', '\0', '\xc0', '\x7f'};
  const std::string infinity = {'\0', '\0', '\x80', '\x7f'};
  const auto array = [&](const std::string& file, const std::string& element, size_t at) {
    npy::Array made{.element = npy::Element::F32, .dims = {64}, .data = {}};
    made.data.assign(256, std::byte{0x40});
    std::memcpy(made.data.data() + 4 * at, element.data(), 4);
    REQUIRE(npy::write_npy(place.at(file), made).ok());
    return place.at(file);
  };
  // The plan copies its state to y, and x to its state.
  const PlanSpec spec = keeping_plan();
  const std::vector<std::byte> plan = serialise(spec);
  std::ofstream(place.at("small.plan"), std::ios::binary)
      .write(reinterpret_cast<const char*>(plan.data()), static_cast<std::streamsize>(plan.size()));
  const std::string x = "--first-nan --inputs " + place.at("x.npy");

  const Outcome clean = place.echo(x);
  CHECK(clean.code == 0);
  CHECK(has_text(clean.text, "no NaN\nno infinity\n"));
  const Outcome copied = place.echo(x + " --state kept=" + array("nan.npy", quiet_nan, 7));
  INFO(copied.text);
  CHECK(copied.code == 4);
  CHECK(has_text(copied.text, "first NaN: step 0 (copy"));
  CHECK(has_text(copied.text, "value \"y\" f32[64], 1 of 64 elements, the first at 7\n"));
  // Infinities may be meant, as in masks.
  const Outcome large =
      place.echo("--json " + x + " --state kept=" + array("infinity.npy", infinity, 9));
  CHECK(large.code == 0);
  const nlohmann::json report = nlohmann::json::parse(large.text);
  CHECK(report["first_nan"].is_null());
  CHECK(report["first_infinity"]["step"] == 0);
  CHECK(report["first_infinity"]["index"] == 9);
  const Outcome given = place.echo("--first-nan --inputs " + array("given.npy", quiet_nan, 0));
  CHECK(given.code == 4);
  CHECK(has_text(given.text, "first NaN: input \"x\" f32[64], 1 of 64 elements, the first at 0\n"));
}

TEST_CASE("rlxrun --nvtx tells a profiler of runs and of the steps that are run up to") {
  const Workplace place;
  const std::string library = bin_folder() + "/../lib/librlx_profiler_stand_in.so";
  const std::string injected = "NVTX_INJECTION64_PATH=" + library;
  const std::string given = "--nvtx --inputs " + place.at("x.npy");
  const Outcome runs = place.echo(given + " --warmup 1 --repeat 2 --first-nan", injected);
  INFO(runs.text);
  CHECK(runs.code == 0);
  CHECK(has_text(
      runs.text,
      "<prepare echo\n>\n<step 0 copy for echo.node0\n>\n<first run\n>\n<warm-up 0\n>\n<run 0\n>\n"
      "<run 1\n>\n"));
  // As the older library.
  std::filesystem::create_symlink(std::filesystem::absolute(library),
                                  place.at("libnvToolsExt.so.1"));
  const Outcome older = place.echo(given, "LD_LIBRARY_PATH=" + place.at(""));
  INFO(older.text);
  CHECK(older.code == 0);
  CHECK(has_text(older.text, "<prepare echo\n>\n<first run\n>\n"));

  CHECK(place.echo("--inputs " + place.at("x.npy"), injected).text.find('<') == std::string::npos);
  check_refused(place.echo(given, "NVTX_INJECTION64_PATH=/nowhere.so"), 1,
                "NVTX_INJECTION64_PATH names a library that cannot be loaded: /nowhere.so");
  check_refused(place.echo(given, "NVTX_INJECTION64_PATH=libc.so.6"), 1, "takes no ranges");
  check_refused(rlxrun(place.at("small.plan") + " --nvtx --self-test", injected), 1, "--nvtx");
}

TEST_CASE("rlxrun begins states from files and writes what the first run leaves") {
  const Workplace place;
  const PlanSpec spec = keeping_plan();
  const std::vector<std::byte> plan = serialise(spec);
  std::ofstream(place.at("small.plan"), std::ios::binary)
      .write(reinterpret_cast<const char*>(plan.data()), static_cast<std::streamsize>(plan.size()));
  npy::Array begin{.element = npy::Element::F32, .dims = {64}, .data = {}};
  begin.data.assign(256, std::byte{0x40});
  REQUIRE(npy::write_npy(place.at("begin.npy"), begin).ok());
  const std::string run = "--inputs " + place.at("x.npy") + " ";
  const Outcome outcome = place.echo(run + "--state kept=" + place.at("begin.npy") +
                                     " --dump-state kept=" + place.at("end.npy") +
                                     " --warmup 2 --repeat 3 --profile --outputs " +
                                     place.at("out") + " --dump-after 0:y=" + place.at("y.npy"));
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  CHECK(has_text(outcome.text, "dumped " + place.at("end.npy")));
  npy::Array x;
  npy::Array end;
  npy::Array y;
  npy::Array dumped;
  REQUIRE(npy::read_npy(place.at("x.npy"), x).ok());
  REQUIRE(npy::read_npy(place.at("end.npy"), end).ok());
  REQUIRE(npy::read_npy(place.at("out/y.npy"), y).ok());
  REQUIRE(npy::read_npy(place.at("y.npy"), dumped).ok());
  CHECK(end.data == x.data);
  CHECK(y.data == begin.data);
  CHECK(dumped.data == begin.data);
  begin.dims = {8, 8};
  REQUIRE(npy::write_npy(place.at("square.npy"), begin).ok());
  check_refused(place.echo(run + "--state keep=" + place.at("begin.npy")), 2,
                "there is no state \"keep\"; the states are: kept f32[64]");
  check_refused(place.echo(run + "--state kept=" + place.at("square.npy")), 2,
                "state \"kept\": got f32[8,8], wanted f32[64]");
  check_refused(place.echo(run + "--dump-state keep=a.npy"), 2,
                "--dump-state: there is no state \"keep\"; the states are: kept f32[64]");
  check_refused(place.echo(run + "--dump-state a.npy"), 1, "is not NAME=FILE.npy");
  check_refused(place.echo(run + "--dump-state kept=" + place.at("")), 5, "it names a folder");
}

TEST_CASE("rlxrun saves all states to a file and begins with them") {
  const Workplace place;
  const std::vector<std::byte> plan = serialise(keeping_plan());
  std::ofstream(place.at("small.plan"), std::ios::binary)
      .write(reinterpret_cast<const char*>(plan.data()), static_cast<std::streamsize>(plan.size()));
  const std::string run = "--inputs " + place.at("x.npy") + " ";
  const std::string file = place.at("states.safetensors");
  const Outcome saved = place.echo(run + "--save-states " + file);
  INFO(saved.text);
  REQUIRE(saved.code == 0);
  const Outcome loaded =
      place.echo(run + "--load-states " + file + " --outputs " + place.at("out"));
  INFO(loaded.text);
  REQUIRE(loaded.code == 0);
  npy::Array x;
  npy::Array y;
  REQUIRE(npy::read_npy(place.at("x.npy"), x).ok());
  REQUIRE(npy::read_npy(place.at("out/y.npy"), y).ok());
  CHECK(y.data == x.data);  // what the run before has kept

  const auto write = [&place](const std::string& header, size_t data) {
    const uint64_t length = header.size();
    std::ofstream stream(place.at("bad.safetensors"), std::ios::binary);
    stream.write(reinterpret_cast<const char*>(&length), sizeof length);
    stream << header << std::string(data, 'x');
  };
  const std::string load_bad = run + "--load-states " + place.at("bad.safetensors");
  write(R"({"other": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}})", 256);
  check_refused(place.echo(load_bad), 2,
                "the states are of another model: the file lacks kept; the plan has no other");
  write(R"({"kept": {"dtype": "F32", "shape": [8, 8], "data_offsets": [0, 256]}})", 256);
  check_refused(place.echo(load_bad), 2,
                "state \"kept\" is F32[8, 8] of 256 bytes, wanted f32[64]");
  write(R"({"kept": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}})", 255);
  check_refused(place.echo(load_bad), 2, "lies outside the file");
  write(R"({"kept": 1})", 0);
  check_refused(place.echo(load_bad), 2, "is not described");
  write("[]", 0);
  check_refused(place.echo(load_bad), 2, "its header is no JSON object");
  std::ofstream(place.at("bad.safetensors"), std::ios::binary) << "short";
  check_refused(place.echo(load_bad), 2, "it is too short");
}

TEST_CASE("rlxrun runs the same plan on Vulkan, the validation layer silent") {
  const Workplace place;
  const Outcome devices = rlxrun("--list-devices");
  REQUIRE(devices.code == 0);
  if (devices.text.find("vulkan:0") == std::string::npos) {
    std::printf("SKIPPED: %s", devices.text.c_str());
    return;
  }
  const std::string run = place.at("small.plan") + " --entry echo --device vulkan:0 --inputs " +
                          place.at("x.npy") + " --expected " + place.at("x.npy") +
                          " --pipeline-cache " + place.at("cache");
  const Outcome plain = rlxrun(run + " --repeat 3 --profile");
  INFO(plain.text);
  CHECK(plain.code == 0);
  const Outcome validated = rlxrun(run + " --validate");
  if (validated.code == 3 && validated.text.find("vulkan-validationlayers") != std::string::npos) {
    std::printf("SKIPPED: validation: %s", validated.text.c_str());
    return;
  }
  INFO(validated.text);
  CHECK(validated.code == 0);
  for (const char* id : {"vulkan:99", "vulkan:00", "vulkan:-0"}) {
    check_refused(
        rlxrun(place.at("small.plan") + " --entry echo --seeded --device " + std::string(id)), 3,
        "vulkan:0");
  }
}
