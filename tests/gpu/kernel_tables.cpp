// The tables of kernels that gpu_steps --kernels writes.
#include <string>

#include "../support/catch.h"
#include "kernel_table.h"

TEST_CASE("a table of kernels has one line per kernel and size, the slowest first", "[report]") {
  KernelTable table;
  table.add("_Z3addPf", " <2x1x1,256>", 3000, 16, 0);
  table.add("_Z3addPf", " <2x1x1,256>", 5000, 16, 0);
  table.add("_Z3addPf", " <4x1x1,256>", 20000, 16, 1024);
  table.add("[fill, 1 MB]", "", 500, 0, 0);
  const std::string text = table.text("mlp 512 O2 captured", 2);
  CHECK(text ==
        "==== mlp 512 O2 captured: 14.2 us of kernels per step, 2.0 launches per step\n"
        "  us/step      %    calls    avg us    min us regs   smem  name\n"
        "     10.0  70.18      0.5     20.00     20.00   16   1024  add(float*) <4x1x1,256>\n"
        "      4.0  28.07      1.0      4.00      3.00   16      0  add(float*) <2x1x1,256>\n"
        "      0.2   1.75      0.5      0.50      0.50    0      0  [fill, 1 MB]\n");
}

TEST_CASE("a program without CUPTI says so", "[report]") {
  CHECK_THROWS_WITH(KernelTrace(), "this program was built without CUPTI; expected -Dcuda=enabled");
}
